//! The flash tier of a cache: evicted items go to flash, and come back when they are asked for
