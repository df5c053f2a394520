// Of each row the columns with the largest x + bias, of equal ones the first, each its part of the sum of their x; 0 elsewhere. A
// workgroup each.
#version 460
#include "lib/types.glsl"
#include "lib/reduce.glsl"
layout(local_size_x_id = 0) in;
#include "push/tower_choose.glsl"
#include "lib/tower.glsl"

float key_of(uint row, uint c) { return x.v[row * cols + c] + (biased == 1 ? bias.v[c] : 0.0); }
bool is_taken(uint row, uint c) {
    const float own = key_of(row, c);
    uint above = 0;
    for (uint other = 0; other < cols; other++) {
        const float key = key_of(row, other);
        if (key > own || (key == own && other < c)) above++;
    }
    return above < taken;
}

void main() {
    const uint row = number_of_group();
    if (row >= count) return;
    float sum = 0.0;
    for (uint c = gl_LocalInvocationID.x; c < cols; c += gl_WorkGroupSize.x) {
        const float value = is_taken(row, c) ? x.v[row * cols + c] : 0.0;
        y.v[row * cols + c] = value;
        sum += value;
    }
    sum = workgroup_sum(sum);
    for (uint c = gl_LocalInvocationID.x; c < cols; c += gl_WorkGroupSize.x) y.v[row * cols + c] /= sum;
}
