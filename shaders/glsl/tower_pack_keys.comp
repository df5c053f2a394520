// Keys and values of an encoder's attention as halves, in the order in which tower_attend_fragments.comp reads them: a thread for each
// sixteen bytes of both. Zeros stand behind the columns of a head and behind the last key.
//
// For each head and each 16 keys and 16 columns there are the 32 units of a subgroup's threads. Of keys, that of thread 4 g + t has
// columns 4 t to 4 t + 3 of key g, then of key g + 8. Of values, it has keys 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of column g, then of column
// g + 8.
#version 460
#include "lib/types.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint D = 64; // columns of a head of k and of v: a multiple of four
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Units { uvec4 v[]; };
#include "push/tower_pack_keys.glsl"
#include "lib/tower.glsl"
const uint STEPS = (D + 15) / 16; // matrices of a head's columns

uvec2 halved(vec4 v) {
    const vec4 c = clamp(v, -65504.0, 65504.0);
    return uvec2(packHalf2x16(c.xy), packHalf2x16(c.zw));
}
uvec2 four(F32x4 from, uint stride, uint head, uint key, uint col) {
    if (key >= m || col >= D) return uvec2(0);
    return halved(from.v[(key * stride + head * D + col) / 4]);
}

float value(uint head, uint key, uint col) { return key < m && col < D ? v.v[key * v_stride + head * D + col] : 0.0; }
uvec2 column(uint head, uint key, uint col) {
    const vec2 first = vec2(value(head, key, col), value(head, key + 1, col));
    return halved(vec4(first, value(head, key + 8, col), value(head, key + 9, col)));
}

void main() {
    const uint i = number_of_thread();
    if (i >= count) return;
    const uint lane = i % 32, step = i / 32 % STEPS, block = i / (32 * STEPS), head = block / (key_room / 16);
    const uint g = lane / 4, t = lane % 4, key = block % (key_room / 16) * 16, col = step * 16;
    keys.v[i] = uvec4(four(k, k_stride, head, key + g, col + 4 * t), four(k, k_stride, head, key + g + 8, col + 4 * t));
    values.v[i] = uvec4(column(head, key + 2 * t, col + g), column(head, key + 2 * t, col + g + 8));
}
