// y = W x + b for many activation rows by cooperative matrices of signed bytes, whole sums in 32 bits: rows come packed as bytes with a
// scale for every 32 (pack_rows.comp), and what the matrices of a piece of inputs give is scaled before it is added up. All comes from
// shared memory, so that it need not be known which thread holds which element: scales, too, as matrices whose columns are all alike.
#version 460
#include "lib/types.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
const uint BITS = 8;
#include "lib/gemm_rows.glsl"
layout(constant_id = 5) const uint MAT_M = 16; // shape of products; MAT_K divides the inputs of a piece
layout(constant_id = 6) const uint MAT_N = 16;
layout(constant_id = 7) const uint MAT_K = 16;
layout(constant_id = 8) const uint WAVES = 2; // subgroups
const uint EACH = GROUPS / PIECES;      // words of a piece
const uint STRIDE = CHUNK / 4 + 4;      // words of an output or a row: an odd number of 16 bytes, to spread banks
const uint TALL = TILE / MAT_M / WAVES, BROAD = ROWS / MAT_N; // matrices of sums of a subgroup
#define Weights coopmat<int8_t, gl_ScopeSubgroup, MAT_M, MAT_K, gl_MatrixUseA>
#define Inputs coopmat<int8_t, gl_ScopeSubgroup, MAT_K, MAT_N, gl_MatrixUseB>
#define Whole coopmat<int, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseAccumulator>
#define Sums coopmat<float, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseAccumulator>
shared uint tile_w[TILE * STRIDE], tile_x[ROWS * STRIDE];
// By piece: factors of outputs and of rows; with offsets, these and the sums of the rows' inputs.
shared float scale_w[PIECES * TILE], scale_x[PIECES * ROWS];
#ifdef HAS_OFFSET
shared float offset_w[PIECES * TILE], sum_x[PIECES * ROWS];
#endif

// Unsigned bytes of which some reach 128 are less by that as signed ones, and the offset makes up for it.
#if defined UNSIGNED_CODES && UNSIGNED_CODES == 1
const uint LESS = 0x80808080u;
#else
const uint LESS = 0;
#endif

void stage(Raw raw, uint row, uint c) {
    const uint t = gl_LocalInvocationID.x;
    uint q[GROUPS];
    vec2 s[PIECES];
    weight_codes(raw, c, q, s);
    [[unroll]] for (uint i = 0; i < GROUPS; i++) tile_w[t * STRIDE + i] = q[i] ^ LESS;
    [[unroll]] for (uint p = 0; p < PIECES; p++) {
        scale_w[p * TILE + t] = s[p].x;
#ifdef HAS_OFFSET
        offset_w[p * TILE + t] = LESS == 0 ? s[p].y : s[p].y + 128.0 * s[p].x;
#endif
    }
    [[unroll]] for (uint i = 0; i < ROWS * CHUNK / 16 / TILE; i++) {
        const uint unit = (i * TILE + t) / ROWS;
        const uvec4 four = U32x4(x).v[(row * k + chunk_col(c, unit * 4)) / 16];
        [[unroll]] for (uint j = 0; j < 4; j++) tile_x[t % ROWS * STRIDE + 4 * unit + j] = four[j];
    }
    for (uint p = t / ROWS; p < PIECES; p += TILE / ROWS) {
        const uint column = chunk_col(c, p * EACH);
        const vec4 run = scales.v[row * (k / 32) + column / 32];
        scale_x[p * ROWS + t % ROWS] = run.x;
#ifdef HAS_OFFSET
        sum_x[p * ROWS + t % ROWS] = EACH == 8 ? run.w : column % 32 < 16 ? run.y : run.z;
#endif
    }
}

void main() {
    const uint above = expert();
    if (above == NONE) return;
    WEIGHT_INIT
    const uint t = gl_LocalInvocationID.x, chunks = k / CHUNK, wave = subgroupBroadcastFirst(gl_SubgroupID);
    const Line line = line_of(w, above * m + min(gl_WorkGroupID.x * TILE + t, m - 1), k);
    const uint row = packed_row(gl_WorkGroupID.y * ROWS + t % ROWS), first = wave * TALL * MAT_M;
    Sums sums[TALL * BROAD];
    [[unroll]] for (uint i = 0; i < TALL * BROAD; i++) sums[i] = Sums(0.0);
    Raw raw = weight_load(line, 0);
    for (uint c = 0; c < chunks; c++) {
        stage(raw, row, c);
        raw = weight_load(line, min(c + 1, chunks - 1));
        barrier();
        for (uint p = 0; p < PIECES; p++) {
            Whole whole[TALL * BROAD];
            [[unroll]] for (uint i = 0; i < TALL * BROAD; i++) whole[i] = Whole(0);
            [[unroll]] for (uint word = 0; word < EACH; word += MAT_K / 4) {
                const uint at = p * EACH + word;
                Inputs b[BROAD];
                [[unroll]] for (uint j = 0; j < BROAD; j++) {
                    coopMatLoad(b[j], tile_x, j * MAT_N * STRIDE + at, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                }
                [[unroll]] for (uint i = 0; i < TALL; i++) {
                    Weights a;
                    coopMatLoad(a, tile_w, (first + i * MAT_M) * STRIDE + at, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                    [[unroll]] for (uint j = 0; j < BROAD; j++) whole[i * BROAD + j] = coopMatMulAdd(a, b[j], whole[i * BROAD + j]);
                }
            }
            [[unroll]] for (uint j = 0; j < BROAD; j++) {
                Sums by_x, of_x;
                coopMatLoad(by_x, scale_x, p * ROWS + j * MAT_N, 0, gl_CooperativeMatrixLayoutRowMajor);
#ifdef HAS_OFFSET
                coopMatLoad(of_x, sum_x, p * ROWS + j * MAT_N, 0, gl_CooperativeMatrixLayoutRowMajor);
#endif
                [[unroll]] for (uint i = 0; i < TALL; i++) {
                    Sums by_w, of_w;
                    coopMatLoad(by_w, scale_w, p * TILE + first + i * MAT_M, 0, gl_CooperativeMatrixLayoutColumnMajor);
                    sums[i * BROAD + j] += Sums(whole[i * BROAD + j]) * (by_w * by_x);
#ifdef HAS_OFFSET
                    coopMatLoad(of_w, offset_w, p * TILE + first + i * MAT_M, 0, gl_CooperativeMatrixLayoutColumnMajor);
                    sums[i * BROAD + j] += of_w * of_x;
#endif
                }
            }
        }
        barrier();
    }
    const uint base = wave * MAT_M * MAT_N;
    [[unroll]] for (uint j = 0; j < BROAD; j++) {
        [[unroll]] for (uint i = 0; i < TALL; i++) {
            barrier();
            coopMatStore(sums[i * BROAD + j], tile_w, base, MAT_M, gl_CooperativeMatrixLayoutColumnMajor);
            barrier();
            for (uint e = gl_SubgroupInvocationID; e < MAT_M * MAT_N; e += gl_SubgroupSize) {
                const uint col = gl_WorkGroupID.y * ROWS + j * MAT_N + e / MAT_M;
                store(gl_WorkGroupID.x * TILE + first + i * MAT_M + e % MAT_M, output_of(col), uintBitsToFloat(tile_w[base + e]));
            }
        }
    }
}
