// What products of many rows packed by pack_rows.comp share: a workgroup of 64 threads takes 64 outputs of 32 * WIDE rows, a chunk of
// inputs at a time. A thread decodes the chunk of one output's weights into shared memory, and gets 8 outputs of 4 * WIDE rows from
// there. Words of several inputs (BITS each) lie input by input, first those of all outputs or rows, so that four neighbours are
// one load. With EXPERTS columns are tiles of pairs of a row and an expert, of one expert each (moe_permute.comp).
layout(local_size_x = 64) in;
#include "quant/contract.glsl"
layout(constant_id = 1) const uint EPILOGUE = 0; // 0 store, 1 add to y, 2 y = what a gate y makes of the result
layout(constant_id = 2) const uint WIDE = 1;     // fours of rows that a thread takes
layout(constant_id = 3) const uint COLUMNS = 32; // of a tile of an expert: a multiple of 32 * WIDE
layout(constant_id = 4) const uint GATHER = 1;   // pairs of a packed row
layout(constant_id = 10) const uint EXPERTS = 0; // 1: gate, 2: up, 3: down of each row's experts
layout(constant_id = 11) const uint USED = 1;    // experts of a row
#include "lib/moe_tiles.glsl"
#include "lib/gate.glsl"
#include "push/gemm_dot.glsl"
const uint TILE = 64, ROWS = 32 * WIDE;
const uint WORDS = CHUNK * BITS / 32; // of a chunk
const uint W_STRIDE = TILE / 4 + 1, X_STRIDE = ROWS / 4 + 1; // uvec4 from a word to the next; odd, to spread banks
const uint HELD = 4 * WIDE;           // rows of a thread
shared uvec4 tile_w[WORDS * W_STRIDE], tile_x[WORDS * X_STRIDE];
vec4 acc[HELD][2];

void put_w(uint word, uint at, uint value) { tile_w[word * W_STRIDE + at / 4][at % 4] = value; }
void put_x(uint word, uint at, uint value) { tile_x[word * X_STRIDE + at / 4][at % 4] = value; }

// The tile's expert; NONE if there is no such tile.
uint expert() { return EXPERTS > 0 ? list.v[gl_WorkGroupID.y * ROWS / COLUMNS] : 0; }
// What a column is: a row of y, or NONE.
uint output_of(uint col) { return EXPERTS > 0 ? list.v[most + col] : (col < n ? col : NONE); }
// The packed row of a column; any row of one that is none.
uint packed_row(uint col) {
    const uint of = output_of(col);
    return of == NONE ? 0 : of / GATHER;
}

// A thread's part of the rows of chunk `c`: units of 16 bytes.
void stage_x(uint row, uint c) {
    const uint UNIT = 128 / BITS; // inputs
    [[unroll]] for (uint i = 0; i < ROWS * CHUNK / UNIT / TILE; i++) {
        const uint unit = (i * TILE + gl_LocalInvocationID.x) / ROWS;
        const uvec4 four = U32x4(x).v[(row * k + chunk_col(c, unit * UNIT / 4)) / UNIT];
        [[unroll]] for (uint j = 0; j < 4; j++) put_x(4 * unit + j, gl_LocalInvocationID.x % ROWS, four[j]);
    }
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

// Stores the thread's sums; a packed row of floats has a factor.
void store_all() {
    const uint first = gl_WorkGroupID.x * TILE + 8 * (gl_LocalInvocationID.x % 8);
    [[unroll]] for (uint i = 0; i < HELD; i++) {
        const uint col = gl_WorkGroupID.y * ROWS + gl_LocalInvocationID.x / 8 * HELD + i, of = output_of(col);
        const float factor = BITS == 16 ? F32(uvec2(scales)).v[packed_row(col)] : 1.0;
        [[unroll]] for (uint j = 0; j < 8; j++) store(first + j, of, acc[i][j / 4][j % 4] * factor);
    }
}
