// A codebook in shared memory, two entries to a word; the format includes where it lies among all of them (GRID_AT and
// GRID_WORDS, made from quant/src/grid.rs) before.
shared uint grid_codes[GRID_WORDS];
void stage_grid(U32 codebooks) {
    for (uint i = gl_LocalInvocationIndex; i < GRID_WORDS; i += gl_WorkGroupSize.x) grid_codes[i] = codebooks.v[GRID_AT + i];
    barrier();
}
uint grid_code(uint index) { return (grid_codes[index / 2] >> (16 * (index % 2))) & 0xffff; }
// Levels of four values, two bits each: 8, 25, 43.
vec4 two_bits(uint code) {
    uvec4 level = (uvec4(code) >> uvec4(0, 2, 4, 6)) & 3;
    return vec4(8 + 17 * level + (level >> 1));
}
uvec4 three_bits(uint code) { return (uvec4(code) >> uvec4(0, 3, 6, 9)) & 7; }
// Changes the sign where bits 0..4 are set.
vec4 signed_by(vec4 x, uint minus) {
    return uintBitsToFloat(floatBitsToUint(x) ^ ((uvec4(minus) << uvec4(31, 30, 29, 28)) & 0x80000000u));
}
uint eight_signs(uint seven) { return (seven & 127) | ((bitCount(seven & 127) & 1) << 7); }
#define WEIGHT_INIT stage_grid(codebooks);
