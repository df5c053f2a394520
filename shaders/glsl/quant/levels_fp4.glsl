// See LEVELS of quant/src/mxfp4.rs.
const float LEVELS[16] = float[](0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
#include "quant/levels.glsl"
