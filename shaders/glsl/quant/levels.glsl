// Sixteen levels that nibbles choose from. Four bytes: the levels of their low nibbles, and of their high ones.
void leveled(uint n, out uint low, out uint high) {
    uint a = table_entry(n & 255) | (table_entry((n >> 8) & 255) << 8);
    uint b = table_entry((n >> 16) & 255) | (table_entry(n >> 24) << 8);
    low = (a & 0xffff) | (b << 16);
    high = (a >> 16) | (b & 0xffff0000u);
}
#ifdef SMALL_HALVES
// The table holds halves here.
#define LEVEL_HALVES
uvec2 level_halves(uint n, bool high) {
    const uint a = table_entry(n & 255), b = table_entry((n >> 8) & 255), c = table_entry((n >> 16) & 255), d = table_entry(n >> 24);
    if (high) return uvec2((a >> 16) | (c & 0xffff0000u), (b >> 16) | (d & 0xffff0000u));
    return uvec2((a & 0xffff) | (c << 16), (b & 0xffff) | (d << 16));
}
#endif
