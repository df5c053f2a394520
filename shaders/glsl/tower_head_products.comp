// Products of rows with rows, per head: a thread for each.
#version 460
#include "lib/types.glsl"
layout(local_size_x_id = 0) in;
#include "push/tower_head_products.glsl"
#include "lib/tower.glsl"

void main() {
    const uint i = number_of_thread();
    if (i >= count) return;
    const uint row = i / y_cols, h = i % y_cols / m, j = i % y_cols % m;
    const uint from = row * a_stride + h * dim, with = j * b_stride + h * b_head;
    float sum = 0.0;
    for (uint c = 0; c < dim; c++) sum += a.v[from + c] * b.v[with + c];
    y.v[i] = sum;
}
