{{- define "veilstream.image" -}}
{{- if .Values.image.digest }}
{{- .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}
{{- .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end -}}

{{/* Values that would install and then not work are refused before anything is installed. The configuration is TOML, which
Helm cannot parse: `$top` is the text before its first table. */}}
{{- define "veilstream.checked" -}}
{{- $top := regexSplit "(?m)^\\s*\\[" .Values.config 2 | first }}
{{- if and (gt (int .Values.coordinator.replicas) 1) (not (regexMatch "(?m)^\\s*store\\s*=" $top)) }}
{{- fail "coordinator.replicas is above 1, and the configuration has no `store`: each coordinator has a volume of its own, and the one that takes over would not have the releases; set `store`, or one replica" }}
{{- end }}
{{- $health := regexFind "(?m)^\\s*health_port\\s*=\\s*[0-9]+" $top | regexFind "[0-9]+$" }}
{{- if ne (int $health) (int .Values.ports.health) }}
{{- fail (printf "health_port of the configuration (%s) is not ports.health (%d): no probe would be answered; make them equal" ($health | default "missing") (int .Values.ports.health)) }}
{{- end }}
{{- $table := regexFind "(?ms)^\\s*\\[metrics\\].*?(^\\s*\\[|\\z)" .Values.config }}
{{- $metrics := regexFind "(?m)^\\s*port\\s*=\\s*[0-9]+" $table | regexFind "[0-9]+$" }}
{{- if and $metrics (ne (int $metrics) (int .Values.ports.metrics)) }}
{{- fail (printf "port of [metrics] in the configuration (%s) is not ports.metrics (%d): nothing would be scraped; make them equal" $metrics (int .Values.ports.metrics)) }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not $metrics) }}
{{- fail "serviceMonitor.enabled, and the configuration has no [metrics] with a port: nothing would be scraped" }}
{{- end }}
{{- if and (or .Values.strimzi.enabled .Values.keda.enabled) (not .Values.sourceTopics) }}
{{- fail "sourceTopics is empty: strimzi and keda need the topics that ingest reads; name those of source.topics" }}
{{- end }}
{{- range .Values.sourceTopics }}
{{- if not (contains (printf "%q" .) $.Values.config) }}
{{- fail (printf "sourceTopics names %s, and source.topics of the configuration does not; make them equal" .) }}
{{- end }}
{{- end }}
{{- if and .Values.strimzi.enabled .Values.topics.create }}
{{- fail "strimzi.enabled makes the topics, and so does topics.create; set topics.create=false" }}
{{- end }}
{{- if and .Values.strimzi.enabled .Values.secretKeys.kafkaPassword }}
{{- fail "strimzi.enabled gives each role a password of its own, and so does secretKeys.kafkaPassword; keep one" }}
{{- end }}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.brokers) }}
{{- fail "networkPolicy.brokers is empty: set the addresses of the brokers (ipBlock, namespaceSelector, podSelector), or set networkPolicy.enabled=false" }}
{{- end }}
{{- end -}}

{{- define "veilstream.labels" -}}
app.kubernetes.io/name: veilstream
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "veilstream.environment" -}}
- name: VEILSTREAM_KEY_FILE
  value: /etc/veilstream/secret/key
{{- if .Values.secretKeys.checkpointKey }}
- name: VEILSTREAM_CHECKPOINT_KEY_FILE
  value: /etc/veilstream/secret/{{ .Values.secretKeys.checkpointKey }}
{{- end }}
{{- if .Values.secretKeys.kafkaPassword }}
- name: VEILSTREAM_SOURCE__SECURITY__PASSWORD_FILE
  value: /etc/veilstream/secret/{{ .Values.secretKeys.kafkaPassword }}
{{- end }}
{{- with .Values.extraEnv }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- define "veilstream.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "veilstream.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "veilstream.mounts" -}}
- name: config
  mountPath: /etc/veilstream/config
  readOnly: true
- name: secret
  mountPath: /etc/veilstream/secret
  readOnly: true
- name: cache
  mountPath: /var/cache/veilstream
- name: tmp
  mountPath: /tmp
{{- with .Values.extraVolumeMounts }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- define "veilstream.volumes" -}}
- name: config
  configMap:
    name: {{ .Release.Name }}-veilstream
- name: secret
  secret:
    secretName: {{ required "existingSecret: name a Secret that holds the pseudonym key under `key`" .Values.existingSecret }}
    defaultMode: 0440
- name: cache
  emptyDir:
    sizeLimit: 512Mi
- name: tmp
  emptyDir:
    sizeLimit: 256Mi
{{- with .Values.extraVolumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- define "veilstream.probes" -}}
# The health endpoint listens on loopback, so the probes run inside.
# A process that refused is alive and never ready: it waits for a person, and a restart would not help.
startupProbe:
  exec:
    command: [python, -c, "from urllib.request import urlopen; urlopen('http://127.0.0.1:{{ .Values.ports.health }}/healthz', timeout=3)"]
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 60
readinessProbe:
  exec:
    command: [python, -c, "from urllib.request import urlopen; urlopen('http://127.0.0.1:{{ .Values.ports.health }}/readyz', timeout=3)"]
  periodSeconds: 15
  timeoutSeconds: 5
livenessProbe:
  exec:
    command: [python, -c, "from urllib.request import urlopen; urlopen('http://127.0.0.1:{{ .Values.ports.health }}/healthz', timeout=3)"]
  periodSeconds: 30
  timeoutSeconds: 5
  failureThreshold: 3
{{- end -}}
