// The signed grid of IQ1_S and IQ1_M: -1, 0, 1.
#include "quant/codes_iq1.glsl"
#include "quant/grid.glsl"
vec4 ternary(uint code) { return vec4((uvec4(code) >> uvec4(0, 2, 4, 6)) & 3) - 1.0; }
