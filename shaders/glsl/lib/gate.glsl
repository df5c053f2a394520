// What becomes of a gate and of what it gates: ACT(gate) * (up + UP_PLUS), with up of at most UP_LIMIT either way, if that is not 0.
#include "lib/act.glsl"
layout(constant_id = 30) const uint GATE_ACT = ACT_SILU; // ACT_*
layout(constant_id = 31) const float GATE_A = 0.0;       // its numbers
layout(constant_id = 32) const float GATE_B = 0.0;
layout(constant_id = 33) const float UP_LIMIT = 0.0;
layout(constant_id = 34) const float UP_PLUS = 0.0;

float gated(float gate, float up) {
    if (GATE_ACT == ACT_SILU) return gate / (1.0 + exp(-gate)) * up;
    if (UP_LIMIT > 0.0) up = clamp(up, -UP_LIMIT, UP_LIMIT);
    return acted(GATE_ACT, gate, vec4(GATE_A, GATE_B, 0.0, 0.0)) * (up + UP_PLUS);
}
