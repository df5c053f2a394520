// y = W x + b in floats for many activation rows and few outputs (routers): 16 x 16 outputs per workgroup of 64 threads, so that
// there are workgroups enough, 2 x 2 per thread. The next inputs are under way while these are used.
#version 460
#include "lib/types.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 1) const uint EPILOGUE = 0; // 0 store, 1 add to y
#define Matrix F32x4
#include "push/gemm_float.glsl"
const uint TILE = 16, STEP = 64, VECS = STEP / 4;
const uint STRIDE = VECS + 1; // rows start in banks of their own
shared vec4 tile_w[TILE * STRIDE], tile_x[TILE * STRIDE];
const uint LOADS = TILE * VECS / 64; // of a thread, of each side

void main() {
    const uint t = gl_LocalInvocationID.x, m_at = gl_WorkGroupID.x * TILE, n_at = gl_WorkGroupID.y * TILE;
    const uint row = t % 8, col = t / 8, first = t / VECS, at = t % VECS;
    vec4 held_w[LOADS], held_x[LOADS];
    vec4 sums[2][2];
    [[unroll]] for (uint i = 0; i < 2; i++) sums[i][0] = sums[i][1] = vec4(0.0);
    for (uint step = 0; step <= k / STEP; step++) {
        if (step > 0) {
            barrier();
            [[unroll]] for (uint i = 0; i < LOADS; i++) {
                tile_w[(first + i * (64 / VECS)) * STRIDE + at] = held_w[i];
                tile_x[(first + i * (64 / VECS)) * STRIDE + at] = held_x[i];
            }
            barrier();
        }
        const uint next = min(step, k / STEP - 1) * VECS + at;
        [[unroll]] for (uint i = 0; i < LOADS; i++) {
            const uint near = first + i * (64 / VECS);
            held_w[i] = w.v[min(m_at + near, m - 1) * (k / 4) + next];
            held_x[i] = x.v[min(n_at + near, n - 1) * (k / 4) + next];
        }
        if (step == 0) continue;
        [[unroll]] for (uint v = 0; v < VECS; v++) {
            const vec4 a0 = tile_w[row * STRIDE + v], a1 = tile_w[(row + 8) * STRIDE + v];
            const vec4 b0 = tile_x[col * STRIDE + v], b1 = tile_x[(col + 8) * STRIDE + v];
            sums[0][0] += a0 * b0;
            sums[0][1] += a0 * b1;
            sums[1][0] += a1 * b0;
            sums[1][1] += a1 * b1;
        }
    }
    [[unroll]] for (uint i = 0; i < 2; i++) {
        [[unroll]] for (uint j = 0; j < 2; j++) {
            const uint output_row = m_at + row + 8 * i, input_row = n_at + col + 8 * j;
            if (output_row >= m || input_row >= n) continue;
            float sum = dot(sums[i][j], vec4(1.0)) * scale;
            if (flags == 1) sum += bias.v[output_row];
            const uint to = input_row * y_stride + y_at + output_row;
            y.v[to] = sum + (EPILOGUE == 1 ? y.v[to] : 0.0);
        }
    }
}
