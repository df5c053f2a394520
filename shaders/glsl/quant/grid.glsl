// A codebook in shared memory, as signed bytes: eight per entry, or a word (GRID_OF_WORDS). The format includes where its
// codes lie among all of them (GRID_AT and GRID_WORDS, made from quant/src/grid.rs, two codes to a word) before, and defines
// how a code (of four values) becomes a word: uint grid_bytes(uint code).
#ifdef GRID_OF_WORDS
shared uint grid[2 * GRID_WORDS];
#else
shared uvec2 grid[2 * GRID_WORDS];
#endif
#ifdef GRID_SIGNS // bits of a sign pattern as stored: 7 (the number of minus signs is even) or 8
shared uvec2 sign_masks[1 << GRID_SIGNS];
#endif
void stage_grid(U32 codebooks) {
    for (uint i = gl_LocalInvocationIndex; i < 2 * GRID_WORDS; i += gl_WorkGroupSize.x) {
        uint code = (codebooks.v[GRID_AT + i / 2] >> (16 * (i % 2))) & 0xffff;
#ifdef GRID_OF_WORDS
        grid[i] = grid_bytes(code);
#else
        grid[i] = uvec2(grid_bytes(code & 255), grid_bytes(code >> 8));
#endif
    }
#ifdef GRID_SIGNS
    for (uint i = gl_LocalInvocationIndex; i < (1 << GRID_SIGNS); i += gl_WorkGroupSize.x) {
        uint eight = GRID_SIGNS == 8 ? i : i | ((bitCount(i) & 1) << 7);
        sign_masks[i] = uvec2(spread_bits(eight), spread_bits(eight >> 4)) * 255;
    }
#endif
    barrier();
}
// Changes the sign of the bytes (none of them 0) whose mask is all ones.
uint signed_by(uint x, uint mask) { return (x ^ mask) + (mask & 0x01010101u); }
#define WEIGHT_INIT stage_grid(codebooks);
