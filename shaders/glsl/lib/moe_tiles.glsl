// What stands in a list of moe_permute.comp where there is nothing.
const uint NONE = 0xffffffff;
