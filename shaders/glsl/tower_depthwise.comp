// A convolution of each channel with a window of its own: a thread for each number.
#version 460
#include "lib/types.glsl"
layout(local_size_x_id = 0) in;
#include "push/tower_depthwise.glsl"
#include "lib/tower.glsl"

void main() {
    const uint i = number_of_thread(), area = kernel[0] * kernel[1];
    if (i >= count) return;
    const uint place = i / channels, c = i % channels;
    const int left = int(place % places_wide * stride[0]) - int(before[0]);
    const int top = int(place / places_wide * stride[1]) - int(before[1]);
    float sum = biased == 1 ? bias.v[c] : 0.0;
    for (uint tap = 0; tap < area; tap++) {
        const int at_x = left + int(tap % kernel[0]), at_y = top + int(tap / kernel[0]);
        if (at_x < 0 || at_y < 0 || at_x >= int(size[0]) || at_y >= int(size[1])) continue;
        sum += weight.v[c * area + tap] * x.v[(uint(at_y) * size[0] + uint(at_x)) * channels + c];
    }
    y.v[i] = sum;
}
