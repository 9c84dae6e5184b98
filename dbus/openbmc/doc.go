// Package openbmc is the tables of what OpenBMC's clients expect on the bus:
// names, paths, interfaces with their properties, enum strings and error names.
// They follow phosphor-dbus-interfaces; what is ours alone is marked so.
package openbmc
