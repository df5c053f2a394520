// y = W x + b for many activation rows by cooperative matrices that a whole workgroup holds (VK_NV_cooperative_matrix2). Rows come packed
// as halves over a power of two each (pack_rows.comp), those of experts in the order of their tiles. WAY says how weights come: as halves
// that lie in memory, of a matrix of them or as decode_weights.comp leaves them; decoded by the load; or decoded into shared memory.
#version 460
#include "lib/types.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x_id = 0) in;
layout(constant_id = 5) const uint K = 4096;
layout(constant_id = 6) const uint TILE = 128;  // outputs of a workgroup
layout(constant_id = 7) const uint ROWS = 128;  // rows of it
layout(constant_id = 8) const uint STEP = 64;   // inputs taken at a time
layout(constant_id = 9) const uint WAY = 0;     // 0: halves, 1: decoded by the load, 2: in shared memory
layout(constant_id = 12) const uint RUN = 0;    // steps that are summed up in halves before floats take them; 0: none
layout(constant_id = 13) const uint WHOLE = 0;  // 1: outputs are whole tiles
#define TALL_TILE
#include "lib/gemm_rows.glsl"
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Halves { float16_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) readonly buffer OneHalf { float16_t v; };
#define Weights coopmat<float16_t, gl_ScopeWorkgroup, TILE, STEP, gl_MatrixUseA>
#define Inputs coopmat<float16_t, gl_ScopeWorkgroup, STEP, ROWS, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeWorkgroup, TILE, ROWS, gl_MatrixUseAccumulator>
#define ShortSums coopmat<float16_t, gl_ScopeWorkgroup, TILE, ROWS, gl_MatrixUseAccumulator>
const uint STRIDE = WAY == 2 ? STEP / 8 + 1 : 1; // uvec4 of an output in shared memory; odd, to spread banks
shared uvec4 tile_w[WAY == 2 ? TILE * STRIDE : 1];
uint above; // the expert

#include "lib/halves.glsl"

// The weight of a row and an input; of formats whose chunks are no neighbours, its group is looked for among those of four chunks.
float16_t decoded(const in OneHalf unused, const in uint block[2], const in uint within[2]) {
    const uint row = min(block[0], m - 1), col = block[1];
    const uint first = col / CHUNK / 4 * 4;
    uint c = col / CHUNK, i = col % CHUNK / 4;
    if (chunk_col(c, i) != col / 4 * 4) {
        for (uint of = 0; of < 4 * GROUPS; of++) {
            if (chunk_col(first + of / GROUPS, of % GROUPS) == col / 4 * 4) {
                c = first + of / GROUPS;
                i = of % GROUPS;
            }
        }
    }
    const Decoded d = weight_decode(line_of(w, above * m + row, K), c);
    return float16_t(clamp(group_values(d, i)[col % 4], -65504.0, 65504.0));
}

void stage(uint step) {
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < TILE * (STEP / CHUNK); i += gl_WorkGroupSize.x) {
        const uint row = i % TILE, c = step * (STEP / CHUNK) + i / TILE, known = min(c, K / CHUNK - 1);
        const Line line = line_of(w, above * m + min(gl_WorkGroupID.x * TILE + row, m - 1), K);
        const Decoded d = weight_decode(line, known);
        [[unroll]] for (uint g = 0; g < GROUPS; g += 2) {
            const uvec4 h = uvec4(halves_of(group_values(d, g)), halves_of(group_values(d, g + 1)));
            tile_w[row * STRIDE + (chunk_col(c, g) - step * STEP) / 8] = c == known ? h : uvec4(0);
        }
    }
    barrier();
}

float finish(const in uint row, const in uint col, const in float sum) {
    const uint at = gl_WorkGroupID.y * ROWS + col;
    const float factor = F32(uvec2(scales)).v[at];
    store(gl_WorkGroupID.x * TILE + row, output_of(at), sum * factor);
    return sum;
}

void main() {
    above = expert();
    if (above == NONE) return;
    WEIGHT_INIT
    tensorLayoutNV<2> rows = createTensorLayoutNV(2);
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> ragged = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    tensorLayoutNV<2> weights = createTensorLayoutNV(2);
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> some = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);
    const uint columns = gl_NumWorkGroups.y * ROWS;
    rows = setTensorLayoutDimensionNV(rows, columns, K);
    ragged = setTensorLayoutDimensionNV(ragged, columns, K);
    weights = setTensorLayoutDimensionNV(weights, m, K);
    some = setTensorLayoutDimensionNV(some, m, K);
    Halves x16 = Halves(x), w16 = Halves(line_of(w, above * m, K).at);
    const uint first = gl_WorkGroupID.x * TILE, col = gl_WorkGroupID.y * ROWS;
    Sums sums = Sums(0.0);
    ShortSums part = ShortSums(0.0);
    [[dont_unroll]] for (uint step = 0; step < (K + STEP - 1) / STEP; step++) {
        Weights a;
        Inputs b;
        const uint at = step * STEP;
        if (WAY == 0) {
            if (WHOLE == 1 && K % STEP == 0) coopMatLoadTensorNV(a, w16.v, 0, sliceTensorLayoutNV(weights, first, TILE, at, STEP));
            else coopMatLoadTensorNV(a, w16.v, 0, sliceTensorLayoutNV(some, first, TILE, at, STEP));
        } else if (WAY == 1) {
            coopMatLoadTensorNV(a, w16.v, 0, sliceTensorLayoutNV(some, first, TILE, at, STEP), decoded);
        } else {
            stage(step);
            coopMatLoad(a, tile_w, 0, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        }
        if (K % STEP == 0) coopMatLoadTensorNV(b, x16.v, 0, sliceTensorLayoutNV(rows, col, ROWS, at, STEP), turned);
        else coopMatLoadTensorNV(b, x16.v, 0, sliceTensorLayoutNV(ragged, col, ROWS, at, STEP), turned);
        if (RUN == 0) {
            sums = coopMatMulAdd(a, b, sums);
        } else {
            part = coopMatMulAdd(a, b, part);
            if (step % RUN == RUN - 1) {
                sums += Sums(part);
                part = ShortSums(0.0);
            }
        }
    }
    if (RUN > 0) sums += Sums(part);
    coopMatPerElementNV(sums, sums, finish);
}
