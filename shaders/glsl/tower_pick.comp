// Weighted sums of rows: a thread for each number.
#version 460
#include "lib/types.glsl"
layout(local_size_x_id = 0) in;
#include "push/tower_pick.glsl"
#include "lib/tower.glsl"

void main() {
    const uint i = number_of_thread();
    if (i >= count) return;
    const uint row = i / cols, c = i % cols;
    float sum = 0.0;
    for (uint e = row * each; e < row * each + each; e++) {
        const int from = int(picks.v[2 * e]);
        if (from >= 0) sum += uintBitsToFloat(picks.v[2 * e + 1]) * x.v[uint(from) * cols + c];
    }
    y.v[i] = sum;
}
