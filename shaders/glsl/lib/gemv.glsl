// What the two GEMV kernels share: constants, arguments, rows of matrices, and what becomes of a sum.
layout(constant_id = 1) const uint ROWS = 1;  // outputs taken at a time
layout(constant_id = 2) const uint COLS = 1;  // activation rows
layout(constant_id = 3) const uint GATED = 0; // 1: gate and up in one
layout(constant_id = 4) const uint ADD = 0;   // 1: adds to y
layout(constant_id = 6) const uint NORM = 0;  // 1: x is normed first
layout(constant_id = 10) const uint EXPERTS = 0; // 1: w0, w1 are of each row's experts, a workgroup row per (row, expert);
                                                 // 2: x is of a row's experts, whose weighted products are added up;
                                                 // 3, 4: as 1, 2 for runs of rows of one expert (matrix.glsl)
layout(constant_id = 11) const uint USED = 1;    // experts of a row
layout(constant_id = 19) const uint WHOLE_ROWS = 0; // 1: ROWS divides the rows of every matrix
#ifdef HAS_PACK_EPILOGUE
#include "push/gemm_few.glsl"
#elif defined(OF_PANELS)
#include "push/gemm_panels.glsl"
#else
#include "push/gemv.glsl"
#endif
#include "lib/gate.glsl"
const uint PARTS = GATED == 1 ? 2 : 1;
const uint LINES = ROWS * PARTS; // rows of matrices

// The route of the workgroup's row, in shared memory: a load of a weight that waited for one of its expert would take twice as
// long. It is asked for before anything else, and staged once something else is under way, too.
const uint ROUTE = EXPERTS == 1 || EXPERTS == 2 ? 4 * USED : 1;
const uint ROUTE_LOADS = (ROUTE + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
shared float staged_route[ROUTE];
float held_route[ROUTE_LOADS];
void ask_route() {
    if (EXPERTS == 0) return;
    uint from = (EXPERTS == 1 ? gl_WorkGroupID.y / USED : gl_WorkGroupID.y) * ROUTE;
    [[unroll]] for (uint i = 0; i < ROUTE_LOADS; i++) {
        held_route[i] = b2.v[from + min(gl_LocalInvocationID.x + i * gl_WorkGroupSize.x, ROUTE - 1)];
    }
}
void stage_route() {
    if (EXPERTS == 0) return;
    [[unroll]] for (uint i = 0; i < ROUTE_LOADS; i++) {
        staged_route[min(gl_LocalInvocationID.x + i * gl_WorkGroupSize.x, ROUTE - 1)] = held_route[i];
    }
    barrier();
}
float routed(uint what, uint slot) { return staged_route[what * USED + slot]; }

// Bias of an expert's gate or down, or of its up.
float expert_bias(uint part, uint expert, uint row) {
    if ((flags & (1u << part)) == 0) return 0.0;
    return part == 0 ? b0.v[expert * m + row] : F32(w2).v[expert * m + row];
}
float biased(float sum, uint part, uint row) {
    if (EXPERTS == 1) {
        const uint slot = gl_WorkGroupID.y % USED;
        return sum * routed(2 + part, slot) + expert_bias(part, floatBitsToUint(routed(0, slot)), row);
    }
    if (EXPERTS > 1) return sum;
    sum *= part == 0 ? s0 : part == 1 ? s1 : s2;
    if ((flags & (1u << part)) == 0) return sum;
    if (part == 0) return sum + b0.v[row];
    if (part == 1) return sum + b1.v[row];
    return sum + b2.v[row];
}

// Row of the matrices where an expert's start: of this workgroup's row of experts, or of the expert that column `col` is of.
uint expert_row(uint col, uint k_of_one) {
    if (EXPERTS == 0) return 0;
    return floatBitsToUint(routed(0, EXPERTS == 1 ? gl_WorkGroupID.y % USED : col / k_of_one)) * m;
}
float expert_weight(uint slot) { return routed(1, slot); }
// First element of x and of y that the workgroup's row of the grid is about.
uint x_from(uint k_of_all) { return EXPERTS == 0 ? 0 : EXPERTS == 1 ? gl_WorkGroupID.y / USED * k_of_all : gl_WorkGroupID.y * k_of_all; }
uint y_from() { return EXPERTS == 1 || EXPERTS == 2 ? gl_WorkGroupID.y * y_stride : 0; }

// Rows of the matrices of `one` inputs for the outputs from `first` on, `above` them the rows of other experts. Rows past the
// end repeat the last one, so that no branch keeps loops from unrolling; where each matrix has a whole number of times ROWS
// there are none, and all but the first are as far from it as the compiler knows.
void find_lines(uint first, uint above, uint one, out Line line[LINES]) {
    [[unroll]] for (uint part = 0; part < PARTS; part++) {
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            const uint row = min(first + r, m - 1), at = part * ROWS + r;
            if (WHOLE_ROWS == 1 && r > 0) line[at] = line_after(line[part * ROWS], r, one);
            else if (GATED == 1) line[at] = line_of(part == 0 ? w0 : w1, above + row, one);
            else if (EXPERTS > 0) line[at] = line_of(w0, above + row, one);
            else line[at] = line_of(row < m0 ? w0 : row < m01 ? w1 : w2, row < m0 ? row : row < m01 ? row - m0 : row - m01, one);
        }
    }
}

// `other` is the sum of up, if GATED.
uint output_at(uint row, uint col) { return y_from() + col * y_stride + row; }
// What the sum is added to, if it is.
float before(uint row, uint col) {
    row = min(row, m - 1);
    float sum = ADD == 1 ? y.v[output_at(row, col)] : 0.0;
    if (EXPERTS == 2) {
        for (uint k = 0; k < USED; k++) sum += routed(1, k) * expert_bias(0, floatBitsToUint(routed(0, k)), row);
    }
    return sum;
}
float product(uint row, float sum, float other) {
    if (GATED == 1) {
        return gated(biased(sum, 0, row), biased(other, 1, row));
    }
    if (row < m0) return biased(sum, 0, row);
    if (row < m01) return biased(sum, 1, row - m0);
    return biased(sum, 2, row - m01);
}
void store(uint row, uint col, float sum, float other, float before) {
    y.v[output_at(row, col)] = before + product(row, sum, other);
}
