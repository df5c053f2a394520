// y (+)= W x + b as gemv.comp, by integer dot products: each workgroup codes the activations once in 16 bits (two signed
// bytes and a scale per 32), then its subgroups take rows in turn. 16 bits keep the result as good as floats would.
#version 460
#include "lib/types.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_EXT_integer_dot_product : require
#include "quant/contract.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 1;  // outputs a subgroup takes at a time
layout(constant_id = 2) const uint COLS = 1;  // activation rows
layout(constant_id = 3) const uint GATED = 0; // 1: gate and up in one
layout(constant_id = 4) const uint ADD = 0;   // 1: adds to y
layout(constant_id = 5) const uint K = 4096;  // inputs
layout(push_constant) uniform Push {
    Weights w0, w1, w2; // [m_i, k]
    F32 b0, b1, b2;     // [m_i], if BIAS_i is set in flags
    F32x4 x;            // [COLS, k]
    F32 y;              // [COLS, y_stride], written from column y_at on
    U32 codebooks;
    uint k;
    uint m0;            // rows of w0
    uint m01;           // rows of w0 and w1
    uint m;             // rows of all
    uint y_stride;
    uint y_at;
    uint flags;         // bit i: b_i is there
};
const uint PARTS = GATED == 1 ? 2 : 1;
const uint LINES = ROWS * PARTS; // rows of matrices
const float STEPS = 32512.0;     // 127 * 256: the high byte stays within a signed byte
shared uvec2 x_codes[COLS * K / 4]; // high bytes, low bytes of four activations
shared float x_scale[COLS * K / 32];

uint packed(ivec4 q) { return uint(q.x & 255) | (uint(q.y & 255) << 8) | (uint(q.z & 255) << 16) | (uint(q.w) << 24); }

// One thread codes 32 activations at a time.
void code_activations() {
    for (uint g = gl_LocalInvocationID.x; g < COLS * K / 32; g += gl_WorkGroupSize.x) {
        vec4 a[8], most = vec4(0.0);
        [[unroll]] for (uint i = 0; i < 8; i++) {
            a[i] = x.v[g * 8 + i];
            most = max(most, abs(a[i]));
        }
        float largest = max(max(most.x, most.y), max(most.z, most.w));
        float inverse = largest > 1e-30 ? STEPS / largest : 0.0;
        x_scale[g] = largest / STEPS;
        [[unroll]] for (uint i = 0; i < 8; i++) {
            ivec4 q = ivec4(round(a[i] * inverse));
            ivec4 high = (q + 128) >> 8;
            x_codes[g * 8 + i] = uvec2(packed(high), packed(q - (high << 8)));
        }
    }
    barrier();
}

float biased(float sum, uint part, uint row) {
    if ((flags & (1u << part)) == 0) return sum;
    if (part == 0) return sum + b0.v[row];
    if (part == 1) return sum + b1.v[row];
    return sum + b2.v[row];
}

void store(uint row, uint col, float sum, float other) {
    if (GATED == 1) {
        sum = biased(sum, 0, row);
        sum = sum / (1.0 + exp(-sum)) * biased(other, 1, row);
    } else if (row < m0) sum = biased(sum, 0, row);
    else if (row < m01) sum = biased(sum, 1, row - m0);
    else sum = biased(sum, 2, row - m01);
    uint at = col * y_stride + y_at + row;
    y.v[at] = ADD == 1 ? y.v[at] + sum : sum;
}

void rows_from(uint first) {
    const uint chunks = K / 32;
    Weights w[LINES];
    uint line[LINES];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint row = min(first + r, m - 1); // rows past the end repeat the last one
        if (GATED == 1) {
            w[r] = w0;
            w[ROWS + r] = w1;
            line[r] = line[ROWS + r] = row * chunks;
        } else {
            w[r] = row < m0 ? w0 : row < m01 ? w1 : w2;
            line[r] = (row < m0 ? row : row < m01 ? row - m0 : row - m01) * chunks;
        }
    }
    float acc[LINES * COLS];
    [[unroll]] for (uint i = 0; i < LINES * COLS; i++) acc[i] = 0.0;
    for (uint c = gl_SubgroupInvocationID; c < chunks; c += gl_SubgroupSize) {
        uint q[LINES][8];
        vec2 s[LINES][PIECES];
        [[unroll]] for (uint r = 0; r < LINES; r++) weight_codes(w[r], line[r] + c, q[r], s[r]);
        [[unroll]] for (uint col = 0; col < COLS; col++) {
            [[unroll]] for (uint p = 0; p < PIECES; p++) {
                float d = x_scale[(col * K + chunk_col(c, p * 8 / PIECES)) / 32];
                ivec2 dots[LINES];
                ivec2 all = ivec2(0); // sums of the activations, for the offset
                [[unroll]] for (uint r = 0; r < LINES; r++) dots[r] = ivec2(0);
                [[unroll]] for (uint i = p * 8 / PIECES; i < (p + 1) * 8 / PIECES; i++) {
                    ivec2 a = ivec2(x_codes[(col * K + chunk_col(c, i)) / 4]);
                    [[unroll]] for (uint r = 0; r < LINES; r++) {
                        dots[r].x += dotPacked4x8EXT(int(q[r][i]), a.x);
                        dots[r].y += dotPacked4x8EXT(int(q[r][i]), a.y);
                    }
#ifdef HAS_OFFSET
                    all.x += dotPacked4x8EXT(0x01010101, a.x);
                    all.y += dotPacked4x8EXT(0x01010101, a.y);
#endif
                }
                [[unroll]] for (uint r = 0; r < LINES; r++) {
                    float part = s[r][p].x * float(dots[r].x * 256 + dots[r].y);
#ifdef HAS_OFFSET
                    part += s[r][p].y * float(all.x * 256 + all.y);
#endif
                    acc[r * COLS + col] += d * part;
                }
            }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        [[unroll]] for (uint col = 0; col < COLS; col++) {
            float sum = subgroupAdd(acc[r * COLS + col]), other = 0.0;
            if (GATED == 1) other = subgroupAdd(acc[(ROWS * (PARTS - 1) + r) * COLS + col]);
            if (subgroupElect() && first + r < m) store(first + r, col, sum, other);
        }
    }
}

void main() {
    WEIGHT_INIT
    code_activations();
    uint step = gl_NumWorkGroups.x * gl_NumSubgroups * ROWS;
    for (uint first = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * ROWS; first < m; first += step) rows_from(first);
}
