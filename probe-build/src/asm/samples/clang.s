	.text
	.file	"s.c"
	.globl	tail                            # -- Begin function tail
	.type	tail,@function
tail:                                   # @tail
.Lfunc_begin0:
	.file	0 "/src" "s.c" md5 0x3c72a40a462fdbf31ac2fb22de001bb9
	.loc	0 5 0                           # s.c:5:0
	.cfi_startproc
# %bb.0:
	.loc	0 5 32 prologue_end             # s.c:5:32
	incl	%edi
.Ltmp0:
	.loc	0 5 26 is_stmt 0                # s.c:5:26
	jmp	ext@PLT                         # TAILCALL
.Ltmp1:
.Lfunc_end0:
	.size	tail, .Lfunc_end0-tail
	.cfi_endproc
                                        # -- End function
	.globl	indirect                        # -- Begin function indirect
	.type	indirect,@function
indirect:                               # @indirect
.Lfunc_begin1:
	.loc	0 6 0 is_stmt 1                 # s.c:6:0
	.cfi_startproc
# %bb.0:
	.loc	0 6 38 prologue_end             # s.c:6:38
	movl	%edi, %eax
	andl	$3, %eax
	.loc	0 6 30 is_stmt 0                # s.c:6:30
	movq	table@GOTPCREL(%rip), %rcx
.Ltmp2:
	jmpq	*(%rcx,%rax,8)                  # TAILCALL
.Ltmp3:
.Lfunc_end1:
	.size	indirect, .Lfunc_end1-indirect
	.cfi_endproc
                                        # -- End function
	.globl	choose                          # -- Begin function choose
	.type	choose,@function
choose:                                 # @choose
.Lfunc_begin2:
	.loc	0 7 0 is_stmt 1                 # s.c:7:0
	.cfi_startproc
# %bb.0:
	pushq	%rax
	.cfi_def_cfa_offset 16
.Ltmp4:
	.loc	0 8 5 prologue_end              # s.c:8:5
	cmpl	$5, %edi
	ja	.LBB2_7
# %bb.1:
	.loc	0 0 5 is_stmt 0                 # s.c:0:5
	movl	$88, %eax
	movl	%edi, %ecx
	leaq	.LJTI2_0(%rip), %rdx
	movslq	(%rdx,%rcx,4), %rcx
	addq	%rdx, %rcx
	jmpq	*%rcx
.LBB2_2:
	.loc	0 9 20 is_stmt 1                # s.c:9:20
	movl	$3, %edi
	popq	%rax
	.cfi_def_cfa_offset 8
.Ltmp5:
	jmp	ext@PLT                         # TAILCALL
.Ltmp6:
.LBB2_3:
	.cfi_def_cfa_offset 16
	.loc	0 10 20                         # s.c:10:20
	movl	$9, %edi
	jmp	.LBB2_4
.LBB2_8:
.Ltmp7:
	.loc	0 3 41                          # s.c:3:41
	movl	$3, %edi
	callq	ext@PLT
.Ltmp8:
	.loc	0 3 48 is_stmt 0                # s.c:3:48
	addl	%eax, %eax
	jmp	.LBB2_9
.Ltmp9:
.LBB2_5:
	.loc	0 13 24 is_stmt 1               # s.c:13:24
	movl	$7, %edi
.LBB2_4:
	.loc	0 0 0 is_stmt 0                 # s.c:0:0
	callq	ext@PLT
.Ltmp10:
	incl	%eax
.LBB2_9:
	.loc	0 17 1 is_stmt 1                # s.c:17:1
	popq	%rcx
	.cfi_def_cfa_offset 8
	retq
.LBB2_6:
	.cfi_def_cfa_offset 16
	.loc	0 14 20                         # s.c:14:20
	popq	%rax
	.cfi_def_cfa_offset 8
.Ltmp11:
	jmp	inner                           # TAILCALL
.Ltmp12:
.LBB2_7:
	.cfi_def_cfa_offset 16
	.loc	0 15 14                         # s.c:15:14
	callq	abort@PLT
.Ltmp13:
.Lfunc_end2:
	.size	choose, .Lfunc_end2-choose
	.cfi_endproc
	.section	.rodata,"a",@progbits
	.p2align	2
.LJTI2_0:
	.long	.LBB2_2-.LJTI2_0
	.long	.LBB2_3-.LJTI2_0
	.long	.LBB2_9-.LJTI2_0
	.long	.LBB2_8-.LJTI2_0
	.long	.LBB2_5-.LJTI2_0
	.long	.LBB2_6-.LJTI2_0
                                        # -- End function
	.text
	.type	inner,@function                 # -- Begin function inner
inner:                                  # @inner
.Lfunc_begin3:
	.loc	0 4 0                           # s.c:4:0
	.cfi_startproc
# %bb.0:
	pushq	%rax
	.cfi_def_cfa_offset 16
.Ltmp14:
	.loc	0 4 60 prologue_end             # s.c:4:60
	movl	$3, %edi
	callq	ext@PLT
.Ltmp15:
	.loc	0 4 67 is_stmt 0                # s.c:4:67
	incl	%eax
	.loc	0 4 53                          # s.c:4:53
	popq	%rcx
	.cfi_def_cfa_offset 8
	retq
.Ltmp16:
.Lfunc_end3:
	.size	inner, .Lfunc_end3-inner
	.cfi_endproc
                                        # -- End function
	.globl	go                              # -- Begin function go
	.type	go,@function
go:                                     # @go
.Lfunc_begin4:
	.loc	0 18 0 is_stmt 1                # s.c:18:0
	.cfi_startproc
# %bb.0:
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%r14
	.cfi_def_cfa_offset 24
	pushq	%rbx
	.cfi_def_cfa_offset 32
	.cfi_offset %rbx, -32
	.cfi_offset %r14, -24
	.cfi_offset %rbp, -16
	movq	%rdi, %rbx
	xorl	%ebp, %ebp
.Ltmp17:
	.loc	0 0 0 is_stmt 0                 # s.c:0:0
	movzbl	(%rdi), %eax
	leaq	go.to(%rip), %r14
	incq	%rbx
	jmpq	*(%r14,%rax,8)
.Ltmp18:                                # Block address taken
.LBB4_1:                                # =>This Inner Loop Header: Depth=1
	.loc	0 22 10 prologue_end is_stmt 1  # s.c:22:10
	movl	$1, %edi
	callq	ext@PLT
.Ltmp19:
	.loc	0 22 7 is_stmt 0                # s.c:22:7
	addl	%eax, %ebp
	.loc	0 0 0                           # s.c:0:0
	movzbl	(%rbx), %eax
	incq	%rbx
	jmpq	*(%r14,%rax,8)
.Ltmp20:                                # Block address taken
.LBB4_2:                                # =>This Inner Loop Header: Depth=1
	.loc	0 24 7 is_stmt 1                # s.c:24:7
	addl	%ebp, %ebp
	.loc	0 0 0 is_stmt 0                 # s.c:0:0
	movzbl	(%rbx), %eax
	incq	%rbx
	jmpq	*(%r14,%rax,8)
.Ltmp21:                                # Block address taken
.LBB4_3:
	.loc	0 26 5 is_stmt 1                # s.c:26:5
	movl	%ebp, %eax
	popq	%rbx
	.cfi_def_cfa_offset 24
	popq	%r14
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	retq
.Ltmp22:
.Lfunc_end4:
	.size	go, .Lfunc_end4-go
	.cfi_endproc
                                        # -- End function
	.globl	maybe                           # -- Begin function maybe
	.type	maybe,@function
maybe:                                  # @maybe
.Lfunc_begin5:
	.loc	0 28 0                          # s.c:28:0
	.cfi_startproc
# %bb.0:
	.loc	0 28 24 prologue_end            # s.c:28:24
	testl	%edi, %edi
.Ltmp23:
	jne	ext@PLT                         # TAILCALL
.Ltmp24:
# %bb.1:
	.loc	0 28 52 is_stmt 0               # s.c:28:52
	xorl	%eax, %eax
	retq
.Ltmp25:
.Lfunc_end5:
	.size	maybe, .Lfunc_end5-maybe
	.cfi_endproc
                                        # -- End function
	.globl	fences                          # -- Begin function fences
	.type	fences,@function
fences:                                 # @fences
.Lfunc_begin6:
	.loc	0 29 0 is_stmt 1                # s.c:29:0
	.cfi_startproc
# %bb.0:
	xorl	%eax, %eax
.Ltmp26:
	.loc	0 29 31 prologue_end            # s.c:29:31
	#APP
.Ltmp27:
	pause
	jne	.Ltmp27
	#NO_APP
	.loc	0 29 79 is_stmt 0               # s.c:29:79
	retq
.Ltmp28:
.Lfunc_end6:
	.size	fences, .Lfunc_end6-fences
	.cfi_endproc
                                        # -- End function
	.globl	loop                            # -- Begin function loop
	.type	loop,@function
loop:                                   # @loop
.Lfunc_begin7:
	.loc	0 30 0 is_stmt 1                # s.c:30:0
	.cfi_startproc
# %bb.0:
	pushq	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	movq	%rdi, %rbx
.Ltmp29:
	.loc	0 30 35 prologue_end            # s.c:30:35
	movl	(%rdi), %eax
.LBB7_1:                                # =>This Inner Loop Header: Depth=1
	.loc	0 30 31 is_stmt 0               # s.c:30:31
	movl	%eax, %edi
	callq	ext@PLT
.Ltmp30:
	.loc	0 30 28                         # s.c:30:28
	addl	(%rbx), %eax
	movl	%eax, (%rbx)
	.loc	0 30 52                         # s.c:30:52
	cmpl	$100, %eax
	.loc	0 30 40                         # s.c:30:40
	jl	.LBB7_1
# %bb.2:
	.loc	0 30 60                         # s.c:30:60
	movl	$3, %eax
	popq	%rbx
	.cfi_def_cfa_offset 8
	retq
.Ltmp31:
.Lfunc_end7:
	.size	loop, .Lfunc_end7-loop
	.cfi_endproc
                                        # -- End function
	.type	go.to,@object                   # @go.to
	.section	.data.rel.ro,"aw",@progbits
	.p2align	4
go.to:
	.quad	.Ltmp18
	.quad	.Ltmp20
	.quad	.Ltmp21
	.size	go.to, 24

	.section	.debug_abbrev,"",@progbits
	.byte	1                               # Abbreviation Code
	.byte	17                              # DW_TAG_compile_unit
	.byte	1                               # DW_CHILDREN_yes
	.byte	37                              # DW_AT_producer
	.byte	37                              # DW_FORM_strx1
	.byte	19                              # DW_AT_language
	.byte	5                               # DW_FORM_data2
	.byte	3                               # DW_AT_name
	.byte	37                              # DW_FORM_strx1
	.byte	114                             # DW_AT_str_offsets_base
	.byte	23                              # DW_FORM_sec_offset
	.byte	16                              # DW_AT_stmt_list
	.byte	23                              # DW_FORM_sec_offset
	.byte	27                              # DW_AT_comp_dir
	.byte	37                              # DW_FORM_strx1
	.byte	17                              # DW_AT_low_pc
	.byte	27                              # DW_FORM_addrx
	.byte	18                              # DW_AT_high_pc
	.byte	6                               # DW_FORM_data4
	.byte	115                             # DW_AT_addr_base
	.byte	23                              # DW_FORM_sec_offset
	.byte	0                               # EOM(1)
	.byte	0                               # EOM(2)
	.byte	2                               # Abbreviation Code
	.byte	46                              # DW_TAG_subprogram
	.byte	0                               # DW_CHILDREN_no
	.byte	3                               # DW_AT_name
	.byte	37                              # DW_FORM_strx1
	.byte	32                              # DW_AT_inline
	.byte	33                              # DW_FORM_implicit_const
	.byte	1
	.byte	0                               # EOM(1)
	.byte	0                               # EOM(2)
	.byte	3                               # Abbreviation Code
	.byte	46                              # DW_TAG_subprogram
	.byte	1                               # DW_CHILDREN_yes
	.byte	17                              # DW_AT_low_pc
	.byte	27                              # DW_FORM_addrx
	.byte	18                              # DW_AT_high_pc
	.byte	6                               # DW_FORM_data4
	.byte	122                             # DW_AT_call_all_calls
	.byte	25                              # DW_FORM_flag_present
	.byte	3                               # DW_AT_name
	.byte	37                              # DW_FORM_strx1
	.byte	0                               # EOM(1)
	.byte	0                               # EOM(2)
	.byte	4                               # Abbreviation Code
	.byte	29                              # DW_TAG_inlined_subroutine
	.byte	0                               # DW_CHILDREN_no
	.byte	49                              # DW_AT_abstract_origin
	.byte	19                              # DW_FORM_ref4
	.byte	17                              # DW_AT_low_pc
	.byte	27                              # DW_FORM_addrx
	.byte	18                              # DW_AT_high_pc
	.byte	6                               # DW_FORM_data4
	.byte	88                              # DW_AT_call_file
	.byte	11                              # DW_FORM_data1
	.byte	89                              # DW_AT_call_line
	.byte	11                              # DW_FORM_data1
	.byte	87                              # DW_AT_call_column
	.byte	11                              # DW_FORM_data1
	.byte	0                               # EOM(1)
	.byte	0                               # EOM(2)
	.byte	5                               # Abbreviation Code
	.byte	72                              # DW_TAG_call_site
	.byte	0                               # DW_CHILDREN_no
	.byte	127                             # DW_AT_call_origin
	.byte	19                              # DW_FORM_ref4
	.ascii	"\202\001"                      # DW_AT_call_tail_call
	.byte	25                              # DW_FORM_flag_present
	.ascii	"\201\001"                      # DW_AT_call_pc
	.byte	27                              # DW_FORM_addrx
	.byte	0                               # EOM(1)
	.byte	0                               # EOM(2)
	.byte	6                               # Abbreviation Code
	.byte	72                              # DW_TAG_call_site
	.byte	0                               # DW_CHILDREN_no
	.byte	127                             # DW_AT_call_origin
	.byte	19                              # DW_FORM_ref4
	.byte	125                             # DW_AT_call_return_pc
	.byte	27                              # DW_FORM_addrx
	.byte	0                               # EOM(1)
	.byte	0                               # EOM(2)
	.byte	7                               # Abbreviation Code
	.byte	46                              # DW_TAG_subprogram
	.byte	0                               # DW_CHILDREN_no
	.byte	3                               # DW_AT_name
	.byte	37                              # DW_FORM_strx1
	.byte	58                              # DW_AT_decl_file
	.byte	11                              # DW_FORM_data1
	.byte	59                              # DW_AT_decl_line
	.byte	11                              # DW_FORM_data1
	.byte	39                              # DW_AT_prototyped
	.byte	25                              # DW_FORM_flag_present
	.byte	60                              # DW_AT_declaration
	.byte	25                              # DW_FORM_flag_present
	.byte	63                              # DW_AT_external
	.byte	25                              # DW_FORM_flag_present
	.byte	0                               # EOM(1)
	.byte	0                               # EOM(2)
	.byte	8                               # Abbreviation Code
	.byte	46                              # DW_TAG_subprogram
	.byte	0                               # DW_CHILDREN_no
	.byte	0                               # EOM(1)
	.byte	0                               # EOM(2)
	.byte	0                               # EOM(3)
	.section	.debug_info,"",@progbits
.Lcu_begin0:
	.long	.Ldebug_info_end0-.Ldebug_info_start0 # Length of Unit
.Ldebug_info_start0:
	.short	5                               # DWARF version number
	.byte	1                               # DWARF Unit Type
	.byte	8                               # Address Size (in bytes)
	.long	.debug_abbrev                   # Offset Into Abbrev. Section
	.byte	1                               # Abbrev [1] 0xc:0x4c DW_TAG_compile_unit
	.byte	0                               # DW_AT_producer
	.short	12                              # DW_AT_language
	.byte	1                               # DW_AT_name
	.long	.Lstr_offsets_base0             # DW_AT_str_offsets_base
	.long	.Lline_table_start0             # DW_AT_stmt_list
	.byte	2                               # DW_AT_comp_dir
	.byte	0                               # DW_AT_low_pc
	.long	.Lfunc_end7-.Lfunc_begin0       # DW_AT_high_pc
	.long	.Laddr_table_base0              # DW_AT_addr_base
	.byte	2                               # Abbrev [2] 0x23:0x2 DW_TAG_subprogram
	.byte	3                               # DW_AT_name
                                        # DW_AT_inline
	.byte	3                               # Abbrev [3] 0x25:0x2d DW_TAG_subprogram
	.byte	1                               # DW_AT_low_pc
	.long	.Lfunc_end2-.Lfunc_begin2       # DW_AT_high_pc
                                        # DW_AT_call_all_calls
	.byte	5                               # DW_AT_name
	.byte	4                               # Abbrev [4] 0x2c:0xd DW_TAG_inlined_subroutine
	.long	35                              # DW_AT_abstract_origin
	.byte	2                               # DW_AT_low_pc
	.long	.Ltmp9-.Ltmp7                   # DW_AT_high_pc
	.byte	0                               # DW_AT_call_file
	.byte	12                              # DW_AT_call_line
	.byte	20                              # DW_AT_call_column
	.byte	5                               # Abbrev [5] 0x39:0x6 DW_TAG_call_site
	.long	82                              # DW_AT_call_origin
                                        # DW_AT_call_tail_call
	.byte	3                               # DW_AT_call_pc
	.byte	6                               # Abbrev [6] 0x3f:0x6 DW_TAG_call_site
	.long	82                              # DW_AT_call_origin
	.byte	4                               # DW_AT_call_return_pc
	.byte	6                               # Abbrev [6] 0x45:0x6 DW_TAG_call_site
	.long	82                              # DW_AT_call_origin
	.byte	5                               # DW_AT_call_return_pc
	.byte	5                               # Abbrev [5] 0x4b:0x6 DW_TAG_call_site
	.long	86                              # DW_AT_call_origin
                                        # DW_AT_call_tail_call
	.byte	6                               # DW_AT_call_pc
	.byte	0                               # End Of Children Mark
	.byte	7                               # Abbrev [7] 0x52:0x4 DW_TAG_subprogram
	.byte	4                               # DW_AT_name
	.byte	0                               # DW_AT_decl_file
	.byte	1                               # DW_AT_decl_line
                                        # DW_AT_prototyped
                                        # DW_AT_declaration
                                        # DW_AT_external
	.byte	8                               # Abbrev [8] 0x56:0x1 DW_TAG_subprogram
	.byte	0                               # End Of Children Mark
.Ldebug_info_end0:
	.section	.debug_str_offsets,"",@progbits
	.long	28                              # Length of String Offsets Set
	.short	5
	.short	0
.Lstr_offsets_base0:
	.section	.debug_str,"MS",@progbits,1
.Linfo_string0:
	.asciz	"Debian clang version 14.0.6"   # string offset=0
.Linfo_string1:
	.asciz	"s.c"                           # string offset=28
.Linfo_string2:
	.asciz	"/src"                          # string offset=32
.Linfo_string3:
	.asciz	"twice"                         # string offset=37
.Linfo_string4:
	.asciz	"ext"                           # string offset=43
.Linfo_string5:
	.asciz	"choose"                        # string offset=47
	.section	.debug_str_offsets,"",@progbits
	.long	.Linfo_string0
	.long	.Linfo_string1
	.long	.Linfo_string2
	.long	.Linfo_string3
	.long	.Linfo_string4
	.long	.Linfo_string5
	.section	.debug_addr,"",@progbits
	.long	.Ldebug_addr_end0-.Ldebug_addr_start0 # Length of contribution
.Ldebug_addr_start0:
	.short	5                               # DWARF version number
	.byte	8                               # Address size
	.byte	0                               # Segment selector size
.Laddr_table_base0:
	.quad	.Lfunc_begin0
	.quad	.Lfunc_begin2
	.quad	.Ltmp7
	.quad	.Ltmp5
	.quad	.Ltmp8
	.quad	.Ltmp10
	.quad	.Ltmp11
.Ldebug_addr_end0:
	.ident	"Debian clang version 14.0.6"
	.section	".note.GNU-stack","",@progbits
	.addrsig
	.addrsig_sym go
	.section	.debug_line,"",@progbits
.Lline_table_start0:
