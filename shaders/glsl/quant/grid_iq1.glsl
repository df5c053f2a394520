// The signed grid of IQ1_S and IQ1_M: eight times -1, 0, 1, so that the shift by an eighth is a whole number too.
#include "quant/codes_iq1.glsl"
#include "quant/grid.glsl"
// Four values, shifted up or down. Bytes are kept from borrowing by a bit that no value reaches.
uint ternary(uint code, bool down) {
    uint biased = 8 * spread_pairs(code & 255) + (down ? 0x77777777u : 0x79797979u); // 0x80 + 8 * (t - 1) -+ 1
    return biased ^ 0x80808080u;
}
