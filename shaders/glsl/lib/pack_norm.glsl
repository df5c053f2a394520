// How gemm_few.comp hands rows on to a norm whose products read them packed. Who makes the rows packs them, times the norm's weights
// and over a power of two that the rows had before they were last added to: a norm's factor is one of the sums. Each run of
// sixteen outputs leaves its sum of squares, and who reads the rows adds those up.
#include "words/pack_norm.glsl"
const float HEADROOM = 64.0; // the root of the mean square is packed as one over this, so that rows may grow
float power_of(float mean_square) {
    return uintBitsToFloat(floatBitsToUint(clamp(sqrt(mean_square), 1e-25, 1e25)) & 0x7f800000u) * HEADROOM;
}
