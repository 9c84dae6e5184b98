// Package props serves objects on D-Bus: properties, methods, introspection
// and the object manager, over godbus and nothing else.
//
// A [Service] is one bus connection with its objects. It keeps these promises:
//
//   - Reads (Get, GetAll, Introspect, GetManagedObjects) are answered from
//     immutable snapshots. They wait for no write, no publisher and no other
//     client.
//   - Writes (Set and the methods of the objects) of one sender are handed to
//     their handlers in the order sent, pipelined or not, and only after the
//     bus driver has vouched for the sender's uid.
//   - Everything that goes out, replies included, passes one ordered queue, so a
//     signal is on the wire before the reply to the write that caused it.
//   - No call of this package waits for the bus but [Service.Connect],
//     [Service.Own] and [Service.Close].
//
// godbus alone gives none of these: it runs every call in a goroutine of its
// own, its property helper holds a lock while it writes to the socket, and a
// message that it cannot decode ends the connection. Hence the own Handler,
// the interceptor that sorts calls in the reader goroutine, and the wire filter
// that drops what godbus would choke on.
package props
