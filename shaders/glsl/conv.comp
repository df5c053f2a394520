// Convolution of each column over the last K rows of its sequence, or, with SHIFT, the row before: a thread for each number. That
// of a sequence's first row in the step does the rows that need the state, and replaces it once nobody reads it any more. With NORM
// the first workgroups' columns have a length of one each.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint K = 2;
layout(constant_id = 2) const uint SILU = 0;
layout(constant_id = 3) const uint BIASED = 0;
layout(constant_id = 4) const uint SHIFT = 0;
layout(constant_id = 5) const uint IN_TURN = 0; // 1: that thread does all rows of the sequence, whose inputs may be overwritten
layout(constant_id = 6) const uint NORM = 0;    // 1: eps is added to the square of the length; 2: it is the least length
#include "push/conv.glsl"
#include "lib/sequence.glsl"
float held[K]; // inputs, the newest last
shared vec4 columns[NORM != 0 ? gl_WorkGroupSize.x / 4 : 1];

float input_of(uint row) { return x.v[row * x_width + gl_GlobalInvocationID.x]; }
void store(uint row) {
    const uint c = gl_GlobalInvocationID.x;
    float sum = held[0];
    if (SHIFT == 0) {
        sum = 0.0;
        [[unroll]] for (uint j = 0; j < K; j++) sum += weight.v[c * K + j] * held[j];
        if (BIASED == 1) sum += bias.v[c];
        if (SILU == 1) sum /= 1.0 + exp(min(-sum, 80.0));
    }
    y.v[row * y_width + c] = sum;
}

// How many rows of the sequence, from `row` on, it did.
uint convolve(uint row) {
    const uint c = gl_GlobalInvocationID.x;
    uint at = row_before(row), done = 0;
    if (at != NO_ROW) {
        if (IN_TURN == 1) return 0;
        held[K - 1] = input_of(row);
        for (uint j = K - 1; j > 0; j--) {
            if (at == NO_ROW) return 0;
            held[j - 1] = input_of(at);
            if (j > 1) at = row_before(at);
        }
        store(row);
        return 1;
    }
    F32 kept = state_of(row);
    const bool fresh = step_pos(params, row) == 0;
    for (uint j = 0; j < K - 1; j++) held[j] = fresh ? 0.0 : kept.v[j * channels + c];
    at = row;
    for (; at != NO_ROW && (IN_TURN == 1 || done < K - 1); done++) {
        held[K - 1] = input_of(at);
        store(at);
        for (uint j = 0; j < K - 1; j++) held[j] = held[j + 1];
        at = row_after(at);
    }
    if (at != NO_ROW) {
        at = last_row(row);
        for (uint j = K - 1; j > 0; j--) {
            held[j - 1] = input_of(at);
            at = row_before(at);
        }
    }
    for (uint j = 0; j < K - 1; j++) kept.v[j * channels + c] = held[j];
    return done;
}

void main() {
    const uint row = gl_WorkGroupID.y, t = gl_LocalInvocationID.x;
    if (gl_GlobalInvocationID.x >= channels || row >= params.w[STEP_ROWS]) return;
    const uint done = convolve(row);
    if (NORM == 0 || gl_WorkGroupID.x >= norms) return;
    // Apart from the above: some compilers mix up what threads hold in arrays while they wait for each other.
    for (uint i = 0, at = row; i < done; i++) {
        const uint place = at * y_width + gl_GlobalInvocationID.x;
        const float own = y.v[place];
        barrier();
        columns[t / 4][t % 4] = own;
        barrier();
        float squares = 0.0;
        for (uint j = 0; j < gl_WorkGroupSize.x / 4; j++) squares += dot(columns[j], columns[j]);
        y.v[place] = own * (NORM == 1 ? inversesqrt(squares + eps) : 1.0 / max(sqrt(squares), eps));
        if (i + 1 < done) at = row_after(at);
    }
}
