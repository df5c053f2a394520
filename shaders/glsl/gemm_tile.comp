// y = W x + b for many activation rows: 64 x 64 outputs per workgroup of 64 threads, 8 x 8 per thread, through shared
// memory. K is walked chunk by chunk in the format's own order; activations are fetched in the same order. With HEADS, a matrix
// for each group of columns.
#version 460
#include "lib/types.glsl"
layout(local_size_x = 64) in;
#include "quant/contract.glsl"
layout(constant_id = 1) const uint EPILOGUE = 0; // 0 store, 1 add to y, 2 y = what a gate y makes of the result
layout(constant_id = 2) const uint HEADS = 0; // 1: rows of x are wider than k
#include "lib/gate.glsl"
#define Matrix uvec2
#include "push/gemm_tile.glsl"
const uint TILE = 64;
const uint STRIDE = TILE + 4; // keeps 16-byte alignment, spreads banks
shared vec4 tile_w[32 * STRIDE / 4];
shared vec4 tile_x[32 * STRIDE / 4];

void store(uint col, uint row, float sum) {
    if (col < n && row < m) {
        sum *= scale;
        if (flags == 1) sum += bias.v[row];
        uint at = col * y_stride + y_at + gl_WorkGroupID.z * y_head + row;
        if (EPILOGUE == 1) sum += y.v[at];
        if (EPILOGUE == 2) sum = gated(y.v[at], sum);
        y.v[at] = sum;
    }
}

void main() {
    WEIGHT_INIT
    uint t = gl_LocalInvocationID.x;
    uint m_at = gl_WorkGroupID.x * TILE, n_at = gl_WorkGroupID.y * TILE;
    uint w_row = min(m_at + t, m - 1), x_row = min(n_at + t, n - 1);
    uint tm = (t % 8) * 2, tn = (t / 8) * 2; // in vec4
    vec4 acc[8][2];
    [[unroll]] for (uint i = 0; i < 8; i++) acc[i][0] = acc[i][1] = vec4(0.0);
    Line line = line_of(w, gl_WorkGroupID.z * m + w_row, k);
    const uint x_at = HEADS == 1 ? x_row * x_width + gl_WorkGroupID.z * x_head : x_row * k;
    for (uint c = 0; c < k / CHUNK; c++) {
        Decoded d = weight_decode(line, c);
        [[unroll]] for (uint part = 0; part < GROUPS / 8; part++) {
            [[unroll]] for (uint i = 0; i < 8; i++) {
                vec4 v = group_values(d, 8 * part + i), a = x.v[(x_at + chunk_col(c, 8 * part + i)) / 4];
                [[unroll]] for (uint j = 0; j < 4; j++) {
                    uint at = (i * 4 + j) * STRIDE + t;
                    tile_w[at / 4][at % 4] = v[j];
                    tile_x[at / 4][at % 4] = a[j];
                }
            }
            barrier();
            // Eight columns a turn: llvmpipe leaves all loops of an invocation after 65,535 turns together, whatever they compute.
            for (uint eight = 0; eight < 4; eight++) {
                [[unroll]] for (uint kk = 0; kk < 8; kk++) {
                    uint at = (8 * eight + kk) * STRIDE / 4;
                    vec4 a0 = tile_w[at + tm], a1 = tile_w[at + tm + 1];
                    vec4 b0 = tile_x[at + tn], b1 = tile_x[at + tn + 1];
                    [[unroll]] for (uint i = 0; i < 4; i++) {
                        acc[i][0] += b0[i] * a0;
                        acc[i][1] += b0[i] * a1;
                        acc[i + 4][0] += b1[i] * a0;
                        acc[i + 4][1] += b1[i] * a1;
                    }
                }
            }
            barrier();
        }
    }
    // No early exits here: they would keep the loops from unrolling, and the sums would live in local memory.
    [[unroll]] for (uint i = 0; i < 8; i++) {
        [[unroll]] for (uint j = 0; j < 8; j++) store(n_at + tn * 4 + i, m_at + tm * 4 + j, acc[i][j / 4][j % 4]);
    }
}
