// Entries of rows that end a block: softmax over the block's rows, column by column, one thread each; of other rows, zero. Rows
// that came before the step are in the layer's state.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint OVERLAPS = 0; // 1: over the block before, too, with columns of its own
layout(constant_id = 2) const uint PLACED = 1;   // 0: nothing is added to scores
#include "push/pool.glsl"
#include "lib/sequence.glsl"

void main() {
    const uint c = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    if (c >= len || row >= params.w[STEP_ROWS]) return;
    const uint pos = step_pos(params, row), columns = len * (1 + OVERLAPS), rows = every * (1 + OVERLAPS);
    if ((pos + 1) % every != 0) {
        y.v[row * y_width + c] = 0.0;
        return;
    }
    F32 kept = state_of(row);
    uint at = row;
    float most = -1e30, sum = 0.0, all = 0.0;
    for (uint back = 0; back < rows && back <= pos; back++) {
        const uint column = OVERLAPS == 1 && back < every ? len + c : c;
        float value, score;
        if (at != NO_ROW) {
            value = x.v[at * x_width + column];
            score = x.v[at * x_width + columns + column];
            at = row_before(at);
        } else {
            const uint from = (pos - back) % rows * 2 * columns;
            value = kept.v[from + column];
            score = kept.v[from + columns + column];
        }
        if (PLACED == 1) score += place.v[(every - 1 - back % every) * columns + column];
        const float now = max(most, score), keep = exp(most - now), e = exp(score - now);
        sum = sum * keep + e * value;
        all = all * keep + e;
        most = now;
    }
    y.v[row * y_width + c] = sum / all;
}
