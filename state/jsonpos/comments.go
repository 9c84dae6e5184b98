package jsonpos

// Blank returns data with // and /* */ comments replaced by spaces, so that
// all offsets, lines and columns stay as they are. Its error, a
// [*SyntaxError], says that a comment is not closed.
func Blank(data []byte) ([]byte, error) {
	out := append([]byte(nil), data...)
	for i := 0; i < len(out); {
		switch {
		case out[i] == '"':
			i = endOfString(out, i)
		case startsWith(out, i, "//"):
			i = blankLine(out, i)
		case startsWith(out, i, "/*"):
			end := blankBlock(out, i)
			if end < 0 {
				return nil, &SyntaxError{Offset: i, Text: "comment /* is not closed by */"}
			}
			i = end
		default:
			i++
		}
	}
	return out, nil
}

func startsWith(data []byte, i int, prefix string) bool {
	return len(data)-i >= len(prefix) && string(data[i:i+len(prefix)]) == prefix
}

// endOfString returns the offset behind the string that opens at i.
func endOfString(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

func blankLine(data []byte, i int) int {
	for i < len(data) && data[i] != '\n' {
		data[i] = ' '
		i++
	}
	return i
}

// blankBlock returns the offset behind the comment at i, -1 if it has no end.
func blankBlock(data []byte, i int) int {
	for end := i + 2; end < len(data); end++ {
		if !startsWith(data, end, "*/") {
			continue
		}
		for j := i; j < end+2; j++ {
			if data[j] != '\n' {
				data[j] = ' '
			}
		}
		return end + 2
	}
	return -1
}
