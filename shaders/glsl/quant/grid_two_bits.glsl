// Codebooks of levels 8, 25, 43.
uint grid_bytes(uint code) {
    uint level = spread_pairs(code & 255);
    return 0x08080808u + 17 * level + ((level >> 1) & 0x01010101u);
}
#include "quant/grid.glsl"
