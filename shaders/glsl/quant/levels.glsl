// Sixteen levels that nibbles choose from, in shared memory: a format defines LEVELS (16 floats) before.
shared float levels[16];
void stage_levels() {
    for (uint i = gl_LocalInvocationIndex; i < 16; i += gl_WorkGroupSize.x) levels[i] = LEVELS[i];
    barrier();
}
vec4 leveled(uint q) {
    return vec4(levels[q & 15], levels[(q >> 8) & 15], levels[(q >> 16) & 15], levels[(q >> 24) & 15]);
}
#define WEIGHT_INIT stage_levels();
