// Sixteen whole levels that nibbles choose from; a format defines LEVELS (16 ints) before. In shared memory for every byte
// of two nibbles: the level of the low one, and 16 bits above that of the high one.
shared uint level_of[16];
shared uint level_pairs[256];
void stage_levels() {
    for (uint i = gl_LocalInvocationIndex; i < 16; i += gl_WorkGroupSize.x) level_of[i] = uint(LEVELS[i]) & 255;
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < 256; i += gl_WorkGroupSize.x) {
        level_pairs[i] = level_of[i & 15] | (level_of[i >> 4] << 16);
    }
    barrier();
}
// Four bytes: the levels of their low nibbles, and of their high ones.
void leveled(uint n, out uint low, out uint high) {
    uint a = level_pairs[n & 255] | (level_pairs[(n >> 8) & 255] << 8);
    uint b = level_pairs[(n >> 16) & 255] | (level_pairs[n >> 24] << 8);
    low = (a & 0xffff) | (b << 16);
    high = (a >> 16) | (b & 0xffff0000u);
}
#define WEIGHT_INIT stage_levels();
