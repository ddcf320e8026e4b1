{{/* Helm cannot parse TOML: name of the process and brokers are read off the configuration by their lines. */}}
{{- define "veilstream.process" -}}
{{- $table := regexFind "(?ms)^\\s*\\[process\\].*?(^\\s*\\[|\\z)" .Values.config -}}
{{- $line := regexFind "(?m)^\\s*name\\s*=\\s*[\"'][^\"']+" $table -}}
{{- $line | regexFind "[^\"']+$" | required "[process] of the configuration has no name: topics and groups are named after it" -}}
{{- end -}}

{{- define "veilstream.bootstrap" -}}
{{- $table := regexFind "(?ms)^\\s*\\[source\\].*?(^\\s*\\[|\\z)" .Values.config -}}
{{- $line := regexFind "(?m)^\\s*bootstrap\\s*=\\s*[\"'][^\"']+" $table -}}
{{- $line | regexFind "[^\"']+$" | required "[source] of the configuration has no bootstrap: keda needs the brokers" -}}
{{- end -}}
