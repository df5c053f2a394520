// y (+)= W x + b for many activation rows by cooperative matrices. Activations come packed (see pack.comp). A subgroup takes
// 16 rows of a matrix STEP inputs at a time: each of its 32 threads decodes a chunk of a row into shared memory as halves,
// from where the matrix cores get them, while its next chunk is under way. SPLIT subgroups share the inputs of a row.
#version 460
#include "lib/types.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x_id = 0) in;
#include "quant/contract.glsl"
layout(constant_id = 5) const uint K = 4096;    // inputs
layout(constant_id = 7) const uint SPLIT = 8;   // subgroups that share the inputs of a row
layout(constant_id = 8) const uint MAT_N = 8;    // columns of a matrix of activations: 8 or 16
layout(constant_id = 9) const uint TILES = 1;   // such matrices a subgroup takes
#include "lib/gemv.glsl"
const uint STEP = 2 * CHUNK;                    // inputs taken at a time
const uint STEPS = (K + STEP - 1) / STEP;
const uint STRIDE = STEP / 8 + 1;               // uvec4 of a row in shared memory; odd, so that rows meet in no bank
const uint AT_ONCE = TILES > 4 ? 4 : TILES;     // matrices of sums that are put there at a time
const uint SUMS = 4 * MAT_N * AT_ONCE;           // uvec4 of a subgroup's sums
const uint ROOM = 16 * STRIDE > SUMS ? 16 * STRIDE : SUMS; // of a subgroup, for weights and then for sums
shared uvec4 tile[gl_WorkGroupSize.x / 32 * ROOM];
#include "lib/matrix.glsl"
const uint UNITS = STEP / MAT_M / SHARE;         // of packed activations in a step, for each of TILES
const uint MOST = TILES > 4 ? 3 : 32 / TILES;   // that a thread has registers for
const uint AHEAD = UNITS < MOST ? UNITS : MOST; // of them asked for ahead
uvec4 held[AHEAD * TILES];

void hold(uint unit, uint step, uint wide0, uint wides) {
    [[unroll]] for (uint j = 0; j < TILES; j++) {
        held[unit % AHEAD * TILES + j] = U32x4(x).v[unit_of(step * UNITS + unit, wide0 + j, wides) + gl_SubgroupInvocationID];
    }
}

void stage(Coded d, uint c, uint from, uint at) {
    uint magic = magic();
    [[unroll]] for (uint i = 0; i < GROUPS; i += 2) {
        tile[at + (chunk_col(c, i) - from) / 8] = uvec4(group_halves(d, i, magic), group_halves(d, i + 1, magic));
    }
}

void main() {
    if (EXPERTS > 0) {
        run_expert = U32(uvec2(b1)).v[gl_WorkGroupID.y];
        if (run_expert == NONE) return;
    }
    WEIGHT_INIT
    const uint lane = gl_SubgroupInvocationID, slice = gl_SubgroupID % SPLIT, part = gl_SubgroupID / SPLIT % PARTS;
    const uint base = gl_SubgroupID * ROOM, wide0 = gl_WorkGroupID.y * TILES, wides = gl_NumWorkGroups.y * TILES;
    const uint my_row = gl_SubgroupID / (SPLIT * PARTS) * MAT_M + lane % MAT_M, my_chunk = lane / MAT_M;
    Line line = line_at(gl_WorkGroupID.x * HEIGHT * MAT_M + my_row, part);
    Next next = fetch(line, 2 * slice + my_chunk);
    for (uint t = gl_WorkGroupID.x; t * HEIGHT * MAT_M < m; t += gl_NumWorkGroups.x) {
        Sums sums[TILES];
        [[unroll]] for (uint j = 0; j < TILES; j++) sums[j] = Sums(0.0);
        for (uint step = slice; step < STEPS; step += SPLIT) {
            [[unroll]] for (uint unit = 0; unit < AHEAD; unit++) hold(unit, step, wide0, wides);
            uint c = 2 * step + my_chunk;
            stage(coded(next, c), c, step * STEP, base + lane % MAT_M * STRIDE);
            bool last = step + SPLIT >= STEPS;
            if (last) line = line_at((t + gl_NumWorkGroups.x) * HEIGHT * MAT_M + my_row, part);
            next = fetch(line, 2 * (last ? slice : step + SPLIT) + my_chunk);
            subgroupMemoryBarrierShared();
            subgroupBarrier();
            [[unroll]] for (uint unit = 0; unit < UNITS; unit++) {
                [[unroll]] for (uint i = 0; i < SHARE; i++) {
                    Weights a;
                    coopMatLoad(a, tile, base + 2 * (unit * SHARE + i), STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                    [[unroll]] for (uint j = 0; j < TILES; j++) {
                        sums[j] = coopMatMulAdd(a, activations(held[unit % AHEAD * TILES + j], i), sums[j]);
                    }
                }
                if (unit + AHEAD < UNITS) hold(unit + AHEAD, step, wide0, wides);
            }
            subgroupBarrier();
        }
        [[unroll]] for (uint of = 0; of < TILES; of += AT_ONCE) {
            [[unroll]] for (uint j = 0; j < AT_ONCE; j++) {
                coopMatStore(sums[of + j], tile, base + j * (MAT_M * MAT_N / 4), MAT_M / 4, gl_CooperativeMatrixLayoutColumnMajor);
            }
            finish(t * HEIGHT * MAT_M, wide0 + of);
        }
    }
}
