package queue

import "github.com/bmcstate/bmcstate/state"

// Collide gives all keys of an empty queue the same hash.
func Collide(q *Queue) { q.hash = func(state.Key) uint64 { return 1 } }
