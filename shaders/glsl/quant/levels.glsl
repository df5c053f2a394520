// Sixteen levels that nibbles choose from. Four bytes of a block: the levels of their low nibbles, and of their high ones.
void leveled(uint n, out uint low, out uint high) {
    uint a = table_entry(n & 255) | (table_entry((n >> 8) & 255) << 8);
    uint b = table_entry((n >> 16) & 255) | (table_entry(n >> 24) << 8);
    low = (a & 0xffff) | (b << 16);
    high = (a >> 16) | (b & 0xffff0000u);
}
// Four bytes of a structure of arrays: the levels of two groups, of which a byte has 0 and 2, or 1 and 3.
void leveled_pairs(uint n, out uint a, out uint b) {
    a = table_entry((n >> 8) & 255) * 256 + table_entry(n & 255);
    b = table_entry(n >> 24) * 256 + table_entry((n >> 16) & 255);
}
// Sixteen bytes, eight groups.
void leveled_words(uvec4 n, out uint q[8]) {
    [[unroll]] for (uint i = 0; i < 4; i++) {
        if (SOA == 1) leveled_pairs(n[i], q[2 * i], q[2 * i + 1]);
        else leveled(n[i], q[i], q[i + 4]);
    }
}
#ifdef SMALL_HALVES
// The table holds halves here.
#define LEVEL_HALVES
uvec2 level_halves(uint n, bool high) {
    const uint a = table_entry(n & 255), b = table_entry((n >> 8) & 255);
    if (SOA == 1) return uvec2(a, b);
    const uint c = table_entry((n >> 16) & 255), d = table_entry(n >> 24);
    if (high) return uvec2((a >> 16) | (c & 0xffff0000u), (b >> 16) | (d & 0xffff0000u));
    return uvec2((a & 0xffff) | (c << 16), (b & 0xffff) | (d << 16));
}
#endif
