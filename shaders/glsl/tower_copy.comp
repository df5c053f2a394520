// Columns copied to another place, with zeros behind them where more are to be written: a thread for each number.
#version 460
#include "lib/types.glsl"
layout(local_size_x_id = 0) in;
#include "push/tower_copy.glsl"
#include "lib/tower.glsl"

void main() {
    const uint i = number_of_thread();
    if (i >= count) return;
    const uint row = i / y_cols, c = i % y_cols;
    float value = 0.0;
    if (c < cols) value = x.v[row * x_stride + c];
    y.v[row * y_stride + c] = value;
}
