// What stands in a list of deal.comp where there is nothing.
const uint NONE = 0xffffffff;
