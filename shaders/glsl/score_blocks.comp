// Scores of entries of blocks for each row: a thread each.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
#include "push/score_blocks.glsl"
#include "lib/sequence.glsl"

void main() {
    const uint j = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    if (row >= params.w[STEP_ROWS] || j >= min(slots, (step_pos(params, row) + 1) / every)) return;
    F32 kept = state_of(row);
    float score = 0.0;
    for (uint h = 0; h < heads; h++) {
        float dots = 0.0;
        for (uint c = 0; c < dim; c++) dots += q.v[row * q_width + h * q_stride + c] * kept.v[j * entry_stride + c];
        score += weights.v[row * w_width + h * w_stride] * max(dots, 0.0);
    }
    y.v[row * y_width + j] = score;
}
