// What each place of a window sees, channel by channel: a thread for each number.
#version 460
#include "lib/types.glsl"
layout(local_size_x_id = 0) in;
#include "push/tower_unfold.glsl"
#include "lib/tower.glsl"

void main() {
    const uint i = number_of_thread(), area = kernel[0] * kernel[1], width = channels * area;
    if (i >= count) return;
    const uint place = i / width, c = i % width / area, tap = i % area;
    const int at_x = int(place % places_wide * stride[0] + tap % kernel[0]) - int(before[0]);
    const int at_y = int(place / places_wide * stride[1] + tap / kernel[0]) - int(before[1]);
    const bool inside = at_x >= 0 && at_y >= 0 && at_x < int(size[0]) && at_y < int(size[1]);
    y.v[i] = inside ? x.v[(uint(at_y) * size[0] + uint(at_x)) * channels + c] : 0.0;
}
