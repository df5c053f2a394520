// Where a part of four values of attention's output is, that a stage of a megakernel joins with the others: two units of 16 bytes,
// three values and an epoch, then the fourth, the part's best score, the sum of its weights, and an epoch.
uint part_of(uint four, uint part, uint parts) { return ((four / 4 * parts + part) * 4 + four % 4) * 2; }
uvec4 part_low(vec4 o, uint epoch) { return uvec4(floatBitsToUint(o.xyz), epoch); }
uvec4 part_high(vec4 o, float best, float sum, uint epoch) { return uvec4(floatBitsToUint(vec3(o.w, best, sum)), epoch); }
