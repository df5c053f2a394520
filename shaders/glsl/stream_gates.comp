// What residual streams are mixed by, of logits in place: a thread for each row.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint COUNT = 4; // streams
#include "push/stream_gates.glsl"
#include "lib/act.glsl"
float matrix[COUNT * COUNT];

void main() {
    const uint row = gl_GlobalInvocationID.x, from = row * width;
    if (row >= params.w[STEP_ROWS]) return;
    for (uint i = 0; i < len && i < 2 * COUNT; i++) {
        const float s = sigmoid(x.v[from + i] * scale.v[i / COUNT] + base.v[i]);
        x.v[from + i] = i < COUNT ? s + eps : magnitude * s + post_eps;
    }
    if (len <= 2 * COUNT) return;
    const uint at = 2 * COUNT;
    for (uint i = 0; i < COUNT * COUNT; i++) matrix[i] = x.v[from + at + i] * scale.v[2] + base.v[at + i];
    for (uint r = 0; r < rounds; r++) {
        for (uint i = 0; i < COUNT; i++) {
            float most = matrix[i * COUNT], sum = 0.0;
            for (uint j = 1; j < COUNT; j++) most = max(most, matrix[i * COUNT + j]);
            if (r == 0) {
                for (uint j = 0; j < COUNT; j++) matrix[i * COUNT + j] = exp(matrix[i * COUNT + j] - most);
            }
            for (uint j = 0; j < COUNT; j++) sum += matrix[i * COUNT + j];
            if (r > 0) sum += eps;
            for (uint j = 0; j < COUNT; j++) matrix[i * COUNT + j] = matrix[i * COUNT + j] / sum + (r == 0 ? eps : 0.0);
        }
        for (uint j = 0; j < COUNT; j++) {
            float sum = eps;
            for (uint i = 0; i < COUNT; i++) sum += matrix[i * COUNT + j];
            for (uint i = 0; i < COUNT; i++) matrix[i * COUNT + j] /= sum;
        }
    }
    for (uint i = 0; i < COUNT * COUNT; i++) x.v[from + at + i] = matrix[i];
}
