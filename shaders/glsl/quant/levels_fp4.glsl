// See LEVELS of quant/src/mxfp4.rs.
const int LEVELS[16] = int[](0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
#include "quant/levels.glsl"
