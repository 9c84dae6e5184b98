package state

// Incomparable is the blank first field of structs that nothing compares with ==.
// Without it the compiler writes a function for each of them that does, which is
// 350 bytes a struct and 40 KB of the daemon.
type Incomparable [0]func()
