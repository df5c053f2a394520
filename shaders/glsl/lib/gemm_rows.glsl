// What products of many rows packed by pack_rows.comp share: a workgroup of 64 threads takes 64 outputs of 32 * WIDE rows, a chunk of
// inputs at a time, of which a thread decodes one output's weights. With EXPERTS columns are tiles of pairs of a row and an expert, of
// one expert each (moe_permute.comp). A kernel with a TALL_TILE has tiles of its own.
#ifndef TALL_TILE
layout(local_size_x = 64) in;
layout(constant_id = 2) const uint WIDE = 1;     // times 32 rows that a workgroup takes
const uint TILE = 64, ROWS = 32 * WIDE;
#endif
#include "quant/contract.glsl"
layout(constant_id = 1) const uint EPILOGUE = 0; // 0 store, 1 add to y, 2 y = what a gate y makes of the result
layout(constant_id = 3) const uint COLUMNS = 32; // of a tile of an expert: a multiple of 32 * WIDE
layout(constant_id = 4) const uint GATHER = 1;   // pairs of a packed row
layout(constant_id = 10) const uint EXPERTS = 0; // 1: gate, 2: up, 3: down of each row's experts
layout(constant_id = 11) const uint USED = 1;    // experts of a row
#include "lib/moe_tiles.glsl"
#include "lib/gate.glsl"
#include "push/gemm_dot.glsl"
// The tile's expert; NONE if there is no such tile.
uint expert() { return EXPERTS > 0 ? list.v[gl_WorkGroupID.y * ROWS / COLUMNS] : 0; }
// What a column is: a row of y, or NONE.
uint output_of(uint col) { return EXPERTS > 0 ? list.v[most + col] : (col < n ? col : NONE); }
// The packed row of a column; any row of one that is none.
uint packed_row(uint col) {
    const uint of = output_of(col);
    return of == NONE ? 0 : of / GATHER;
}

void store(uint row, uint of, float sum) {
    if (of != NONE && row < m) {
        const bool biased = (flags & 1) == 1;
        if (EXPERTS == 0) {
            sum *= scale;
            if (biased) sum += bias.v[row];
        } else {
            const float by = route.v[of / USED * 4 * USED + (EXPERTS == 3 ? 1 : EXPERTS + 1) * USED + of % USED];
            const float plus = biased ? bias.v[expert() * m + row] : 0.0;
            sum = EXPERTS == 3 ? (sum + plus) * by : sum * by + plus;
        }
        const uint at = of * y_stride + y_at + row;
        if (EPILOGUE == 1) sum += y.v[at];
        if (EPILOGUE == 2) sum = gated(y.v[at], sum);
        y.v[at] = sum;
    }
}
