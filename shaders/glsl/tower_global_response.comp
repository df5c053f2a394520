// A norm over all rows of each column. First a workgroup for each column finds its length, then one for each row writes it.
#version 460
#include "lib/types.glsl"
#include "lib/reduce.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint WRITES = 0;
#include "push/tower_global_response.glsl"
#include "lib/tower.glsl"

void main() {
    const uint group = number_of_group();
    if (group >= (WRITES == 1 ? rows : cols)) return;
    float sum = 0.0;
    if (WRITES == 0) {
        for (uint i = gl_LocalInvocationID.x; i < rows; i += gl_WorkGroupSize.x) {
            const float value = x.v[i * cols + group];
            sum += value * value;
        }
        sum = workgroup_sum(sum);
        if (gl_LocalInvocationID.x == 0) lengths.v[group] = sqrt(sum);
        return;
    }
    for (uint c = gl_LocalInvocationID.x; c < cols; c += gl_WorkGroupSize.x) sum += lengths.v[c];
    const float mean = workgroup_sum(sum) / float(cols);
    for (uint c = gl_LocalInvocationID.x; c < cols; c += gl_WorkGroupSize.x) {
        const float value = x.v[group * cols + c];
        y.v[group * cols + c] = value + weight.v[c] * value * (lengths.v[c] / (mean + eps)) + bias.v[c];
    }
}
