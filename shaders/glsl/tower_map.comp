// y = scale * act(a), then + b or * b, which is repeated over rows and columns: a thread for each number.
#version 460
#include "lib/types.glsl"
layout(local_size_x_id = 0) in;
#include "push/tower_map.glsl"
#include "lib/act.glsl"
#include "words/tower.glsl"
#include "lib/tower.glsl"

void main() {
    const uint i = number_of_thread();
    if (i >= count) return;
    const uint row = i / cols, c = i % cols;
    const float x = a.v[row * a_stride + c], hard = clamp(x / 6.0 + 0.5, 0.0, 1.0);
    float value = acted(act, x, vec4(low, high, 0.0, 0.0));
    if (act == ACT_HARD_SWISH) value = x * hard;
    if (act == ACT_HARD_SIGMOID) value = hard;
    value *= scale;
    if (join > 0) {
        float other = number;
        if (join < 3) other = b.v[row % b_rows * b_stride + c % b_cols];
        value = join % 2 == 1 ? value + other : value * other;
    }
    y.v[row * y_stride + c] = value;
}
