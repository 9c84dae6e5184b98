package props

import (
	"strings"

	godbus "github.com/godbus/dbus/v5"
)

const (
	ifaceProperties     = "org.freedesktop.DBus.Properties"
	ifaceIntrospectable = "org.freedesktop.DBus.Introspectable"
	ifacePeer           = "org.freedesktop.DBus.Peer"
	ifaceObjectManager  = "org.freedesktop.DBus.ObjectManager"

	xmlHead = `<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
<node>
`
	// Every node has these, parents included.
	xmlNode = ` <interface name="org.freedesktop.DBus.Peer">
  <method name="Ping"/>
  <method name="GetMachineId">
   <arg name="machine_uuid" type="s" direction="out"/>
  </method>
 </interface>
 <interface name="org.freedesktop.DBus.Introspectable">
  <method name="Introspect">
   <arg name="xml_data" type="s" direction="out"/>
  </method>
 </interface>
`
	xmlProperties = ` <interface name="org.freedesktop.DBus.Properties">
  <method name="Get">
   <arg name="interface_name" type="s" direction="in"/>
   <arg name="property_name" type="s" direction="in"/>
   <arg name="value" type="v" direction="out"/>
  </method>
  <method name="GetAll">
   <arg name="interface_name" type="s" direction="in"/>
   <arg name="props" type="a{sv}" direction="out"/>
  </method>
  <method name="Set">
   <arg name="interface_name" type="s" direction="in"/>
   <arg name="property_name" type="s" direction="in"/>
   <arg name="value" type="v" direction="in"/>
  </method>
  <signal name="PropertiesChanged">
   <arg name="interface_name" type="s"/>
   <arg name="changed_properties" type="a{sv}"/>
   <arg name="invalidated_properties" type="as"/>
  </signal>
 </interface>
`
	xmlObjectManager = ` <interface name="org.freedesktop.DBus.ObjectManager">
  <method name="GetManagedObjects">
   <arg name="object_paths_interfaces_and_properties" type="a{oa{sa{sv}}}" direction="out"/>
  </method>
  <signal name="InterfacesAdded">
   <arg name="object_path" type="o"/>
   <arg name="interfaces_and_properties" type="a{sa{sv}}"/>
  </signal>
  <signal name="InterfacesRemoved">
   <arg name="object_path" type="o"/>
   <arg name="interfaces" type="as"/>
  </signal>
 </interface>
`
)

// introspect describes a node: its interfaces and the names of its children.
// Names of our tables need no escaping in XML: D-Bus allows letters, digits,
// dots and underscores only.
func (t *tree) introspect(path godbus.ObjectPath) string {
	var b strings.Builder
	b.WriteString(xmlHead)
	b.WriteString(xmlNode)
	if t.managers[path] {
		b.WriteString(xmlObjectManager)
	}
	if o := t.at(path); o != nil {
		b.WriteString(xmlProperties)
		b.WriteString(o.xml)
	}
	for _, name := range t.names(path) {
		b.WriteString(` <node name="` + name + "\"/>\n")
	}
	b.WriteString("</node>\n")
	return b.String()
}

func interfaceXML(i *Interface) string {
	var b strings.Builder
	b.WriteString(` <interface name="` + i.Name + "\">\n")
	for _, m := range i.Methods {
		b.WriteString(`  <method name="` + m.Name + "\">\n")
		argsXML(&b, m.In, "in")
		argsXML(&b, m.Out, "out")
		b.WriteString("  </method>\n")
	}
	for n := range i.Properties {
		b.WriteString(propertyXML(&i.Properties[n]))
	}
	b.WriteString(" </interface>\n")
	return b.String()
}

func argsXML(b *strings.Builder, args []Arg, direction string) {
	for _, a := range args {
		b.WriteString(`   <arg name="` + a.Name + `" type="` + a.Type + `" direction="` + direction + "\"/>\n")
	}
}

func propertyXML(p *Property) string {
	access, emits := "read", "true"
	if p.Writable {
		access = "readwrite"
	}
	if p.Const {
		emits = "const"
	}
	return `  <property name="` + p.Name + `" type="` + p.Type + `" access="` + access + "\">\n" +
		`   <annotation name="org.freedesktop.DBus.Property.EmitsChangedSignal" value="` + emits + "\"/>\n" +
		"  </property>\n"
}
