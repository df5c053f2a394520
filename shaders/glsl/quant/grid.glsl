// A codebook in shared memory, two entries to a word; the format includes where it lies among all of them (GRID_AT and
// GRID_WORDS, made from quant/src/grid.rs) before.
shared uint grid_codes[GRID_WORDS];
void stage_grid(U32 codebooks) {
    for (uint i = gl_LocalInvocationIndex; i < GRID_WORDS; i += gl_WorkGroupSize.x) grid_codes[i] = codebooks.v[GRID_AT + i];
    barrier();
}
uint grid_code(uint index) { return (grid_codes[index / 2] >> (16 * (index % 2))) & 0xffff; }
// Four values of two bits as levels 8, 25, 43.
uint two_bits(uint code) {
    uint level = spread_pairs(code & 255);
    return 0x08080808u + 17 * level + ((level >> 1) & 0x01010101u);
}
// Four fields of three bits as bytes.
uint three_bits(uint code) { return (code & 7) | ((code & 56) << 5) | ((code & 448) << 10) | ((code & 3584) << 15); }
// Changes the sign of the bytes (none of them 0) where bits 0..4 are set.
uint signed_by(uint x, uint minus) {
    uint ones = spread_bits(minus);
    return (x ^ (ones * 255)) + ones;
}
uint eight_signs(uint seven) { return (seven & 127) | ((bitCount(seven & 127) & 1) << 7); }
#define WEIGHT_INIT stage_grid(codebooks);
