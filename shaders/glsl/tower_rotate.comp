// Columns of heads turned in place by angles of each row: a thread for each pair.
#version 460
#include "lib/types.glsl"
layout(local_size_x_id = 0) in;
#include "push/tower_rotate.glsl"
#include "lib/tower.glsl"

void main() {
    const uint i = number_of_thread();
    if (i >= count) return;
    const uint pair = i % half_dims, row = i / half_dims / heads, head = i / half_dims % heads;
    const uint at = row * x_stride + head * head_dim;
    const uint first = at + (adjacent == 1 ? 2 * pair : pair), second = adjacent == 1 ? first + 1 : first + half_dims;
    const float cosine = turns.v[row * 2 * half_dims + pair], sine = turns.v[row * 2 * half_dims + half_dims + pair];
    const float u = x.v[first], w = x.v[second];
    x.v[first] = u * cosine - w * sine;
    x.v[second] = u * sine + w * cosine;
}
