// See LEVELS of quant/src/iq4_nl.rs.
const int LEVELS[16] = int[](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
#include "quant/levels.glsl"
