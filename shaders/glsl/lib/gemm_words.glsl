// Products of packed rows without matrices: a thread has 8 outputs of 4 * WIDE rows. Words of several inputs (BITS each) lie in shared
// memory input by input, first those of all outputs or rows, so that four neighbours are one load.
#include "lib/gemm_rows.glsl"
const uint WORDS = CHUNK * BITS / 32; // of a chunk
const uint W_STRIDE = TILE / 4 + 1, X_STRIDE = ROWS / 4 + 1; // uvec4 from a word to the next; odd, to spread banks
const uint HELD = 4 * WIDE;           // rows of a thread
shared uvec4 tile_w[WORDS * W_STRIDE], tile_x[WORDS * X_STRIDE];
vec4 acc[HELD][2];

void put_w(uint word, uint at, uint value) { tile_w[word * W_STRIDE + at / 4][at % 4] = value; }
void put_x(uint word, uint at, uint value) { tile_x[word * X_STRIDE + at / 4][at % 4] = value; }

// A thread's part of the rows of chunk `c`: units of 16 bytes.
void stage_x(uint row, uint c) {
    const uint UNIT = 128 / BITS; // inputs
    [[unroll]] for (uint i = 0; i < ROWS * CHUNK / UNIT / TILE; i++) {
        const uint unit = (i * TILE + gl_LocalInvocationID.x) / ROWS;
        const uvec4 four = U32x4(x).v[(row * k + chunk_col(c, unit * UNIT / 4)) / UNIT];
        [[unroll]] for (uint j = 0; j < 4; j++) put_x(4 * unit + j, gl_LocalInvocationID.x % ROWS, four[j]);
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
