// y (+)= W x + b for 2 to 16 activation rows by cooperative matrices, each thread of which decodes the weights it holds of
// them in registers. It asks for a device that spreads matrices over threads as it expects (policy/matrix.rs: `direct`): of
// weights, thread 4 g + t has rows g and g + 8 and inputs 2 t, 2 t + 1, 2 t + 8 and 2 t + 9, of activations those inputs of
// row g of the step. Since it does not matter which input of the row is which of the matrix, these four are a group of
// chunk t of four; activations come packed in this order (see lib/pack_layout.glsl). SPLIT subgroups share the inputs of a row.
#version 460
#include "lib/types.glsl"
#include "words/shared.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_spirv_intrinsics : require
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4464], 4459, 16); // subnormal halves are kept
#define SMALL_HALVES
layout(local_size_x_id = 0) in;
#include "quant/contract.glsl"
layout(constant_id = 5) const uint K = 4096;    // inputs
layout(constant_id = 7) const uint SPLIT = 8;   // subgroups that share the inputs of a row
layout(constant_id = 9) const uint TILES = 1;   // matrices of activations: 1 or 2
layout(constant_id = 13) const uint TURN = 8;   // groups whose activations are held at a time: even, divides CHUNK / 4
// If not 0, y is packed as the next product wants it (lib/pack_layout.glsl), scaled by PACK_EPILOGUE_SCALE: it leaves room for outliers, as
// gated units have, while what halves lose at the lower end is nothing beside them.
layout(constant_id = 12) const uint PACK_EPILOGUE = 0;
#define PACK_EPILOGUE_SCALE (1.0 / float(GATED_FACTOR))
layout(constant_id = 14) const uint NORM_EPILOGUE = 0;   // if not 0, a layout that y is packed in for a norm (lib/pack_norm.glsl),
layout(constant_id = 15) const uint NORM_EPILOGUE_2 = 0;  // and another one
layout(constant_id = 16) const uint NORM_PROLOGUE = 0;  // 1: x came packed so
#define HAS_PACK_EPILOGUE
#include "lib/gemv.glsl"
#include "lib/pack_layout.glsl"
#include "lib/pack_norm.glsl"
const uint MAT_N = 8;
const uint STEP = 4 * CHUNK;                    // inputs taken at a time
const uint STEPS = (K + STEP - 1) / STEP;
const uint AT_ONCE = TILES;
const uint ROOM = 4 * MAT_N * TILES;             // uvec4 of a subgroup's sums
shared uvec4 tile[gl_WorkGroupSize.x / 32 * ROOM];
#include "lib/matrix.glsl"

Weights weights(uvec2 top, uvec2 low) {
    f16vec2 a = unpackFloat2x16(top.x), b = unpackFloat2x16(top.y), c = unpackFloat2x16(low.x), d = unpackFloat2x16(low.y);
    Weights w;
    w[0] = a.x;
    w[1] = a.y;
    w[2] = b.x;
    w[3] = b.y;
    w[4] = c.x;
    w[5] = c.y;
    w[6] = d.x;
    w[7] = d.y;
    return w;
}

#ifdef SMALL
// A matrix with the factors of rows g and g + 8 in its first column, which one thread of four has.
Weights factors(float16_t top, float16_t low, bool mine) {
    Weights w = Weights(0.0);
    w[0] = mine ? top : float16_t(0.0);
    w[4] = mine ? low : float16_t(0.0);
    return w;
}
#endif

// The groups in their turn: those of the same bytes follow each other, so that these are looked up once.
uint in_turn(uint i) {
#ifdef LEVEL_HALVES
    if (SOA == 1) return i;
    return i / (2 * LEVEL_APART) * (2 * LEVEL_APART) + i % (2 * LEVEL_APART) / 2 + i % 2 * LEVEL_APART;
#else
    return i;
#endif
}

// The norm's factors of the rows, for `finish`.
void find_factors() {
    const uint EACH_ROW = gl_WorkGroupSize.x / 16, t = gl_LocalInvocationID.x, row = t / EACH_ROW, n = flags >> 8 & 0xffff;
    F32x4 squares = F32x4(norm_epilogue.v[EPILOGUE_SQUARES]);
    vec4 sums = vec4(0.0);
    [[unroll]] for (uint i = 0; i < K / 64; i += EACH_ROW) {
        const uint at = i + t % EACH_ROW;
        sums += at < K / 64 ? squares.v[min(row, n - 1) * (K / 64) + at] : vec4(0.0);
    }
    float sum = sums.x + sums.y + sums.z + sums.w;
    [[unroll]] for (uint by = 1; by < EACH_ROW; by *= 2) sum += subgroupShuffleXor(sum, by);
    if (t % EACH_ROW != 0 || row >= n) return;
    norm_factors[row] = F32(norm_epilogue.v[EPILOGUE_POWERS]).v[row] / sqrt(sum / float(K) + eps);
    if (gl_WorkGroupID.x == 0) F32(norm_epilogue.v[EPILOGUE_NEXT]).v[row] = power_of(sum / float(K));
}

void main() {
    if (NORM_PROLOGUE == 1) find_factors();
    WEIGHT_INIT
    const uint lane = gl_SubgroupInvocationID, slice = gl_SubgroupID % SPLIT, part = gl_SubgroupID / SPLIT % PARTS;
    const uint my_row = gl_SubgroupID / (SPLIT * PARTS) * MAT_M + lane / 4, my_chunk = lane % 4, magic = magic();
    U32x4 codes = U32x4(x);
    Line line[2];
    [[unroll]] for (uint h = 0; h < 2; h++) line[h] = line_at(gl_WorkGroupID.x * HEIGHT * MAT_M + my_row + 8 * h, part);
    for (uint t = gl_WorkGroupID.x; t * HEIGHT * MAT_M < m; t += gl_NumWorkGroups.x) {
        Sums sums[2 * TILES]; // of even and of odd groups, so that none waits for the one before
        [[unroll]] for (uint j = 0; j < 2 * TILES; j++) sums[j] = Sums(0.0);
#ifdef SMALL
        Sums whole[TILES];
        [[unroll]] for (uint j = 0; j < TILES; j++) whole[j] = Sums(0.0);
#endif
        for (uint step = slice; step < STEPS; step += SPLIT) {
            // Not a step ahead: what that takes of registers costs more subgroups than it gains.
            Next raw[2];
            [[unroll]] for (uint h = 0; h < 2; h++) raw[h] = fetch(line[h], 4 * step + my_chunk);
            uvec4 held[TURN / 2 * TILES];
            [[unroll]] for (uint u = 0; u < TURN / 2 * TILES; u++) {
                held[u] = codes.v[unit_of(step * (GROUPS / 2) + u / TILES, u % TILES, TILES) + lane];
            }
            Coded top = coded(raw[0], 4 * step + my_chunk), low = coded(raw[1], 4 * step + my_chunk);
            if (step + SPLIT >= STEPS) {
                [[unroll]] for (uint h = 0; h < 2; h++) {
                    line[h] = line_at((t + gl_NumWorkGroups.x) * HEIGHT * MAT_M + my_row + 8 * h, part);
                }
            }
            [[unroll]] for (uint i = 0; i < GROUPS; i++) {
                if (i > 0 && i % TURN == 0) {
                    [[unroll]] for (uint u = 0; u < TURN / 2 * TILES; u++) {
                        held[u] = codes.v[unit_of(step * (GROUPS / 2) + i / 2 + u / TILES, u % TILES, TILES) + lane];
                    }
                }
                const uint g = in_turn(i);
                Weights a = weights(group_halves(top, g, magic), group_halves(low, g, magic));
                [[unroll]] for (uint j = 0; j < TILES; j++) {
                    uint s = i % 2 * TILES + j;
                    sums[s] = coopMatMulAdd(a, activations(held[g % TURN / 2 * TILES + j], g % 2), sums[s]);
                }
            }
#ifdef SMALL
            // All four chunks are of one block. A product puts the factors of the rows where threads have their sums.
            Sums by = coopMatMulAdd(factors(top.factor, low.factor, my_chunk == 0), Activations(1.0), Sums(0.0));
            [[unroll]] for (uint j = 0; j < TILES; j++) {
                [[unroll]] for (uint e = 0; e < EACH; e++) {
                    whole[j][e] = fma(by[e], sums[j][e] + sums[TILES + j][e], whole[j][e]);
                }
                sums[j] = sums[TILES + j] = Sums(0.0);
            }
#endif
        }
#ifdef SMALL
        [[unroll]] for (uint j = 0; j < TILES; j++) sums[j] = whole[j];
#endif
        [[unroll]] for (uint j = 0; j < TILES; j++) {
            coopMatStore(sums[j] + sums[TILES + j], tile, gl_SubgroupID * ROOM + j * (MAT_M * MAT_N / 4), MAT_M / 4,
                         gl_CooperativeMatrixLayoutColumnMajor);
        }
        finish(t * HEIGHT * MAT_M, 0);
    }
}
