// Sixteen whole levels that nibbles choose from, in shared memory: a format defines LEVELS (16 ints) before.
shared uint levels[16];
void stage_levels() {
    for (uint i = gl_LocalInvocationIndex; i < 16; i += gl_WorkGroupSize.x) levels[i] = uint(LEVELS[i]) & 255;
    barrier();
}
uint leveled(uint q) {
    return levels[q & 15] | (levels[(q >> 8) & 15] << 8) | (levels[(q >> 16) & 15] << 16) | (levels[(q >> 24) & 15] << 24);
}
#define WEIGHT_INIT stage_levels();
