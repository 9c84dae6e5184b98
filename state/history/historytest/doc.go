// Package historytest has a file system in memory for package history that
// fails, fills up, hangs and loses power on command.
//
// What a file holds and what of it is on the platter are two things here. Until
// Sync a file's changes, and until SyncDir a directory's names, may be lost by
// [FS.PowerLoss]: any prefix of them survives, as the caller chooses. A killed
// process ([FS.Kill]) loses nothing. A file whose Sync failed keeps its changes
// in memory, and no later Sync makes them durable, as with Linux's page cache.
package historytest
