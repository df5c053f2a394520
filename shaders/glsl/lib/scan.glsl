// What the kernels of recurrences have in common: shapes, and where each row's columns are.
layout(constant_id = 1) const uint KIND = 0; // SCAN_*
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint V_DIM = 1;
layout(constant_id = 4) const uint K_DIM = 1;
layout(constant_id = 5) const uint GROUPS = 1;
layout(constant_id = 6) const uint TILED = 0;   // 1: head h is of group h % GROUPS
layout(constant_id = 7) const uint DECAYS = 0;  // per head: 1, or 2 for K_DIM; 0: none
layout(constant_id = 8) const uint FACTORS = 0; // likewise
layout(constant_id = 9) const uint RATED = 0;
// Columns of a row, and from one group to the next, of each input.
layout(constant_id = 12) const uint Q_WIDTH = 1;
layout(constant_id = 13) const uint Q_STRIDE = 1;
layout(constant_id = 14) const uint K_WIDTH = 1;
layout(constant_id = 15) const uint K_STRIDE = 1;
layout(constant_id = 16) const uint V_WIDTH = 1;
layout(constant_id = 17) const uint V_STRIDE = 1;
layout(constant_id = 18) const uint DECAY_WIDTH = 1;
layout(constant_id = 19) const uint DECAY_STRIDE = 1;
layout(constant_id = 20) const uint RATE_WIDTH = 1;
layout(constant_id = 21) const uint RATE_STRIDE = 1;
layout(constant_id = 22) const uint A_WIDTH = 1;
layout(constant_id = 23) const uint A_STRIDE = 1;
layout(constant_id = 24) const uint B_WIDTH = 1;
layout(constant_id = 25) const uint B_STRIDE = 1;
layout(constant_id = 26) const uint Y_WIDTH = 1;
layout(constant_id = 27) const uint Y_STRIDE = 1;
layout(constant_id = 31) const uint SOFT = 0; // 1: rates and decays are as products left them
layout(constant_id = 32) const uint SKIP = 0; // 1: y += skip * v
#include "lib/act.glsl"
#include "push/scan.glsl"
#include "lib/sequence.glsl"

uint group_of(uint head) { return TILED == 1 ? head % GROUPS : head / (HEADS / GROUPS); }
float factor_of(uint head, uint i) { return FACTORS == 0 ? 0.0 : factor.v[FACTORS == 1 ? head : head * K_DIM + i]; }
float rate_of(uint row, uint head) {
    if (RATED == 0) return 1.0;
    const float x = rate.v[row * RATE_WIDTH + head * RATE_STRIDE];
    if (SOFT == 0) return x;
    return KIND == SCAN_MAMBA ? softplus(x + soft.v[head]) : sigmoid(x);
}
// The decay of a column as it is stored: see fade_of.
float decay_of(uint row, uint head, uint i) {
    if (DECAYS == 0) return 1.0;
    const float x = decay.v[row * DECAY_WIDTH + head * DECAY_STRIDE + (DECAYS == 1 ? 0 : i)];
    return SOFT == 1 && KIND == SCAN_DELTA ? softplus(x + soft.v[head]) * factor_of(head, i) : x;
}
// What a column of the state is multiplied by.
float fade_of(float decay, float rate, float factor) {
    if (KIND == SCAN_MAMBA) return exp(rate * factor);
    return KIND == SCAN_DELTA && DECAYS > 0 ? exp(decay) : decay;
}
float skipped(uint head, float v) { return SKIP == 1 ? skip.v[head] * v : 0.0; }
