// Sixteen levels that nibbles choose from. Four bytes: the levels of their low nibbles, and of their high ones.
void leveled(uint n, out uint low, out uint high) {
    uint a = table_entry(n & 255) | (table_entry((n >> 8) & 255) << 8);
    uint b = table_entry((n >> 16) & 255) | (table_entry(n >> 24) << 8);
    low = (a & 0xffff) | (b << 16);
    high = (a >> 16) | (b & 0xffff0000u);
}
